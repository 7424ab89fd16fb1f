// Keyboard shortcuts of a screen: a letter for every sound, R or 0 for the reference, L for the loop, digits for answers, Enter to continue.
// None is active while text is typed, and all but Enter can be turned off, for people who use speech input.

import { loadSetting, saveSetting } from "./storage.js";
import { make } from "./widgets.js";

const GUARD_MS = 400;  // an Enter within this time, before anything was done on a screen, was meant for the previous one
const ALPHABET = [..."abcdefghijklmnopqrstuvwxyz"];

/** Key -> track: the label if it is one letter, R for the reference, else the first free letter of the label, else any. L is the loop. */
function assignLetters(tracks) {
  const letters = new Map();
  const assign = (track, candidates) => {
    const key = candidates.find((k) => k !== "l" && !letters.has(k));
    if (key) letters.set(key, track);
  };
  const single = tracks.filter((t) => /^[a-z]$/i.test(t.label)), reference = tracks.filter((t) => !t.rated);
  for (const track of single) assign(track, [track.label.toLowerCase()]);
  for (const track of reference) assign(track, ["r"]);
  const named = tracks.filter((t) => !single.includes(t) && !reference.includes(t));
  for (const track of named) assign(track, [...[...track.label.toLowerCase()].filter((k) => ALPHABET.includes(k)), ...ALPHABET]);
  return letters;
}

export class Shortcuts {
  constructor(screen) {
    this.screen = screen;
    this.shown_at = performance.now();
    this.letters = assignLetters(screen.player.tracks);
    this.enabled = loadSetting("keys") !== false;
    this.list = make("span", {});
    this.toggle = make("button", { type: "button", class: "link" });
    this.toggle.addEventListener("click", () => { this.enabled = !this.enabled; saveSetting("keys", this.enabled); this.draw(); });
    this.help = make("p", { class: "keys" }, this.list, " ", this.toggle);
    this.draw();
    this.listener = (event) => this.keydown(event);
    document.addEventListener("keydown", this.listener);
  }

  /** The letter of a sound, as shown on its button. */
  letterOf(track) {
    const [key] = [...this.letters].find(([, t]) => t === track) ?? [];
    return key?.toUpperCase();
  }

  draw() {
    const { player, controls } = this.screen, { tracks } = player;
    const own = tracks.filter((t) => this.letterOf(t) && this.letterOf(t) === t.label).map((t) => t.label);
    const others = tracks.filter((t) => this.letterOf(t) && this.letterOf(t) !== t.label)
      .map((t) => `${this.letterOf(t)}${t.rated ? "" : " or 0"} plays ${t.label}`);
    const parts = [
      own.length ? `${own.join(", ")} ${player.switching ? "play and switch" : "play"}` : "", ...others,
      tracks.length && player.maxPlays > 1 ? "L repeats" : "", controls.some((c) => c.digit) ? "1, 2, … choose" : "", "Enter continues",
    ].filter(Boolean);
    const several = parts.length > 1;
    this.list.textContent = this.enabled || !several ? `Keys: ${parts.join("; ")}.` : "Keyboard shortcuts are off, except Enter.";
    this.toggle.textContent = this.enabled ? "Turn shortcuts off" : "Turn shortcuts on";
    this.toggle.hidden = !several;
  }

  keydown(event) {
    const { screen } = this, { target } = event;
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.isComposing || screen.sending) return;
    if (event.key === "Enter") this.enter(event);
    else if (this.enabled && !target.closest?.("textarea, input[type=text], summary, footer")) this.character(event);
  }

  enter(event) {
    // these elements handle Enter themselves
    if (this.screen.frozen || event.target.closest?.("button, a, summary, textarea, footer")) return;
    event.preventDefault();
    if (this.screen.touched || performance.now() - this.shown_at > GUARD_MS) this.screen.submit();
  }

  character(event) {
    const { player, controls, loop } = this.screen, key = event.key.toLowerCase();
    const track = key === "0" ? player.tracks.find((t) => !t.rated) : this.letters.get(key);
    if (track) {
      player.press(track);
      // the next thing to move is the sound's own slider
      if (!this.screen.frozen) controls.find((c) => c.sound === track.label && c.widget.kind !== "type")?.focus();
    } else if (key === "l" && loop) {
      loop.checked = !loop.checked;
      player.setLoop(loop.checked);
    } else if (/^[1-9]$/.test(key) && !this.screen.frozen) {
      // an unanswered question, preferably the one with the focus; if all are answered, the one with the focus is answered again
      const groups = controls.filter((c) => c.digit), open = groups.filter((c) => c.value() === undefined);
      const hasFocus = (c) => c.element.contains(document.activeElement);
      const group = open.find(hasFocus) ?? open[0] ?? groups.find(hasFocus);
      if (group?.digit(Number(key))) event.preventDefault();
    }
  }

  close() {
    document.removeEventListener("keydown", this.listener);
  }
}
