// The keys of a screen: a letter for every sound, R or 0 for the reference, L for the loop, digits for answers, Enter to go on. None is
// taken while text is typed, and all but Enter can be switched off, for those who speak to their computer.

import { recall, remember } from "./keeper.js";
import { make } from "./widgets.js";

const IDLE_MS = 400;  // an Enter that comes sooner, before anything was done on a screen, was meant for the one before
const ALPHABET = [..."abcdefghijklmnopqrstuvwxyz"];

/** Key -> track: a sound's own letter, R for the reference, else the first letter of its name that is free, else any. L is the loop's. */
function letters(tracks) {
  const taken = new Map();
  const give = (track, wanted) => {
    const key = wanted.find((k) => k !== "l" && !taken.has(k));
    if (key) taken.set(key, track);
  };
  const single = tracks.filter((t) => /^[a-z]$/i.test(t.label)), reference = tracks.filter((t) => !t.rated);
  for (const track of single) give(track, [track.label.toLowerCase()]);
  for (const track of reference) give(track, ["r"]);
  const named = tracks.filter((t) => !single.includes(t) && !reference.includes(t));
  for (const track of named) give(track, [...[...track.label.toLowerCase()].filter((k) => ALPHABET.includes(k)), ...ALPHABET]);
  return taken;
}

export class Keys {
  constructor(screen) {
    this.screen = screen;
    this.shown_at = performance.now();
    this.letters = letters(screen.player.tracks);
    this.on = recall("keys") !== false;
    this.words = make("span", {});
    this.turn = make("button", { type: "button", class: "link" });
    this.turn.addEventListener("click", () => { this.on = !this.on; remember("keys", this.on); this.draw(); });
    this.help = make("p", { class: "keys" }, this.words, " ", this.turn);
    this.draw();
    this.pressed = (event) => this.key(event);
    document.addEventListener("keydown", this.pressed);
  }

  /** The key of a sound, as it is written on it. */
  of(track) {
    const [key] = [...this.letters].find(([, t]) => t === track) ?? [];
    return key?.toUpperCase();
  }

  draw() {
    const { player, controls } = this.screen, { tracks } = player;
    const own = tracks.filter((t) => this.of(t) && this.of(t) === t.label).map((t) => t.label);
    const others = tracks.filter((t) => this.of(t) && this.of(t) !== t.label)
      .map((t) => `${this.of(t)}${t.rated ? "" : " or 0"} plays ${t.label}`);
    const says = [
      own.length ? `${own.join(", ")} ${player.switching ? "play and switch" : "play"}` : "", ...others,
      tracks.length && player.most > 1 ? "L repeats" : "", controls.some((c) => c.digit) ? "1, 2, … choose" : "", "Enter goes on",
    ].filter(Boolean);
    const some = says.length > 1;
    this.words.textContent = this.on || !some ? `Keys: ${says.join("; ")}.` : "Keys are off, but for Enter.";
    this.turn.textContent = this.on ? "Switch keys off" : "Switch keys on";
    this.turn.hidden = !some;
  }

  key(event) {
    const { screen } = this, at = event.target;
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.isComposing || screen.sending) return;
    if (event.key === "Enter") this.enter(event);
    else if (this.on && !at.closest?.("textarea, input[type=text], summary, footer")) this.character(event);
  }

  enter(event) {
    // there Enter is theirs
    if (this.screen.settled || event.target.closest?.("button, a, summary, textarea, footer")) return;
    event.preventDefault();
    if (this.screen.begun || performance.now() - this.shown_at > IDLE_MS) this.screen.submit();
  }

  character(event) {
    const { player, controls, loop } = this.screen, key = event.key.toLowerCase();
    const track = key === "0" ? player.tracks.find((t) => !t.rated) : this.letters.get(key);
    if (track) {
      player.press(track);
      // the sound's own slider is what is moved next
      if (!this.screen.settled) controls.find((c) => c.sound === track.label && c.widget.kind !== "type")?.focus();
    } else if (key === "l" && loop) {
      loop.checked = !loop.checked;
      player.repeat(loop.checked);
    } else if (/^[1-9]$/.test(key) && !this.screen.settled) {
      // a question without an answer, best the one that has the focus; if all are answered, the one that has it is answered anew
      const groups = controls.filter((c) => c.digit), open = groups.filter((c) => c.value() === undefined);
      const inside = (c) => c.element.contains(document.activeElement);
      const group = open.find(inside) ?? open[0] ?? groups.find(inside);
      if (group?.digit(Number(key))) event.preventDefault();
    }
  }

  close() {
    document.removeEventListener("keydown", this.pressed);
  }
}
