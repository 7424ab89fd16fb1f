// One screen of a study: words, sounds to press, questions, and a button that sends what is complete.

import { draft, saveDraft } from "./keeper.js";
import { Keys } from "./keys.js";
import { Player } from "./player.js";
import { control, make, scale } from "./widgets.js";

const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`);

/** Plain paragraphs, parted by empty lines. */
export const paragraphs = (text) => text.split(/\n\s*\n/).map((p) => p.trim()).filter(Boolean).map((p) => make("p", {}, p));

export class Screen {
  /** `send({screen, answer, playback, response_ms})` is called once the screen is complete; `decline()` when the listener does not agree;
   * `report(kind)` when something is wrong with its sounds; `gone()` when they are no longer there. */
  constructor(screen, { title, send, decline, report, gone }) {
    Object.assign(this, { screen, send, decline, report, asked: false, problem: "", sending: false, begun: false });
    this.kept = draft(screen.id);
    this.shown_at = performance.now() - this.kept.spent_ms;
    this.heading = make("h1", { tabindex: "-1" }, screen.title || title);
    this.hint = make("p", { class: "hint", id: "hint", role: "status" });
    this.button = make("button", { type: "submit", class: "go", "aria-describedby": "hint" }, "Continue");
    this.form = make("form", { novalidate: true, "data-kind": screen.kind, class: screen.plays === null ? "" : "limited" });
    this.tiles = [];
    this.player = new Player(screen.sounds, {
      plays: screen.plays, switching: screen.switch, before: this.kept.sounds, gone, changed: (what) => this.sounded(what) });
    const rated = screen.sounds.filter((s) => s.rated);
    this.controls = screen.widgets.flatMap((w, n) => (
      w.each_sound ? rated.map((s, k) => this.control(w, `w${n}-${k}`, s.label)) : [this.control(w, `w${n}`)]));
    this.keys = new Keys(this);
    this.element = this.build();
    for (const c of this.controls) {
      const value = c.sound ? this.kept.values[c.widget.name]?.[c.sound] : this.kept.values[c.widget.name];
      if (value !== undefined) c.restore(value);
    }
    this.draw();
  }

  control(widget, id, sound) {
    return control(widget, id, () => this.touched(), sound);
  }

  build() {
    const { screen, player } = this, each = screen.widgets.filter((w) => w.each_sound);
    const tiles = player.tracks.map((track) => this.tile(track));
    const alone = each.length ? [] : tiles;
    const about = (track) => (track.rated ? this.controls.filter((c) => c.sound === track.label).map((c) => c.element)
      : [make("p", { class: "note" }, "To compare with; it is not rated.")]);
    const row = (track, i) => make("li", { class: "row" }, tiles[i], make("div", {}, ...about(track)));
    const rows = each.length ? player.tracks.map(row) : [];
    const [first] = each;
    this.form.append(
      ...(alone.length ? [make("div", { class: "sounds", role: "group", "aria-label": "Sounds" }, ...alone)] : []),
      ...(rows.length ? [make("fieldset", { class: "widget each" }, make("legend", {}, listed(each.map((w) => w.question))),
        ...(first.anchors.length ? [make("div", { class: "row scale" }, make("span"), scale(first), make("span"))] : []),
        make("ul", {}, ...rows))] : []),
      ...(player.most > 1 && tiles.length ? [this.transport()] : []),
      ...this.controls.filter((c) => !c.sound).map((c) => c.element),
      this.keys.help,
      make("div", { class: "end" }, this.button, ...this.refusal(), this.hint));
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
    this.saved = () => { this.player.stop(); this.save(); };
    addEventListener("pagehide", this.saved);
    return make("section", {}, this.heading, make("div", { class: "text" }, ...paragraphs(screen.text)), this.form);
  }

  tile(track) {
    const name = make("span", { class: "name" }, track.label), n = this.tiles.length;
    const state = make("span", { class: "state", id: `state${n}` }), left = make("span", { class: "left", id: `left${n}` });
    const fill = make("span", { class: "fill" });
    const letter = this.keys.of(track), shown = letter && letter !== track.label ? [make("kbd", { "aria-hidden": "true" }, letter)] : [];
    const button = make("button", { type: "button", class: "sound", "aria-describedby": `${state.id} ${left.id}`, "aria-keyshortcuts": letter },
      make("span", { class: "sign", "aria-hidden": "true" }), name, ...shown, fill);
    const again = make("button", { type: "button", class: "quiet", hidden: true }, "Try again",
      make("span", { class: "visually-hidden" }, ` to load ${track.label}`));
    // the focus stays where it is when a sound is clicked: Enter still goes on. Tab reaches the button
    button.addEventListener("mousedown", (event) => event.preventDefault());
    button.addEventListener("click", () => this.player.press(track));
    again.addEventListener("click", () => { button.focus(); this.player.load(track); });
    const element = make("div", { class: "tile" }, button, make("div", {}, state, left), again);
    this.tiles.push({ track, element, button, state, left, fill, again });
    return element;
  }

  /** Whether sounds go round, and what is left of the plays that belong to all of them together. */
  transport() {
    const { player } = this;
    this.loop = make("input", { type: "checkbox", "aria-keyshortcuts": "L" });
    this.loop.addEventListener("change", () => player.repeat(this.loop.checked));
    this.together = make("p", { class: "note", id: "plays" });
    const costs = player.limit === null ? "" : " (each time round is a play)";
    return make("div", { class: "transport" },
      make("label", { class: "repeat" }, this.loop, make("span", {}, `Repeat${costs}`), make("kbd", { "aria-hidden": "true" }, "L")), this.together);
  }

  /** The button of those who do not agree. */
  refusal() {
    if (!this.screen.decline) return [];
    const button = make("button", { type: "button", class: "decline" }, this.screen.decline);
    button.addEventListener("click", () => { if (!this.sending) { this.lock(true, this.button.textContent); this.decline(); } });
    return [button];
  }

  sounded(what) {
    if (what === "play") { this.problem = ""; this.begun = true; }
    this.draw();
    if (what === "trouble") this.say(this.player.trouble);
    if (what === "trouble" || what === "broken") this.report(what === "broken" ? "sound.broken" : "sound.silent");
    if (what === "play") this.follow();
    if (what !== "load" && what !== "broken") this.save();
  }

  touched() {
    this.begun = true;
    this.draw();
    this.save();
  }

  save() {
    if (this.sending) return;
    const sounds = Object.fromEntries(this.player.tracks.map(({ label, plays, switches, played_s, spans }) => (
      [label, { plays, switches, played_s, spans }])));
    saveDraft({ screen: this.screen.id, values: this.values(), sounds, spent_ms: Math.round(performance.now() - this.shown_at) });
  }

  draw() {
    const { player } = this, switches = player?.switching && player.voices;  // no player yet: it tells of its own making
    for (const { track, element, button, state, left, again } of this.tiles) {
      const on = player.sounding === track, heard = player.heardAll(track);
      element.classList.toggle("on", on);
      element.classList.toggle("heard", heard);
      element.classList.toggle("broken", track.state === "broken");
      const act = on && player.limit === null ? "Stop" : switches && !on ? "Switch to" : "Play";
      button.setAttribute("aria-label", `${act} ${track.label}`);
      button.setAttribute("aria-disabled", String(!player.open(track)));
      again.hidden = track.state !== "broken";
      state.textContent = track.state === "loading" ? "Loading…" : track.state === "broken" ? "This sound could not be loaded."
        : on ? "Playing" : heard ? "Heard" : !this.screen.hear_all ? "" : track.spans.length ? "Heard in part" : "Not heard yet";
      left.textContent = player.limit === null || player.switching ? "" : `${player.left(track)} of ${player.most} plays left`;
    }
    if (this.together && player.switching && player.limit !== null) {
      this.together.textContent = `${player.left(player.tracks[0])} of ${player.most} plays left. Switching while it plays uses none.`;
    }
    this.tell();
  }

  /** The line under a sound moves while it sounds. */
  follow() {
    const place = this.player.place();
    for (const { track, fill } of this.tiles) fill.style.setProperty("--place", this.player.sounding === track ? place.toFixed(4) : "0");
    if (this.player.voices) requestAnimationFrame(() => this.follow());
  }

  values() {
    const values = {};
    for (const c of this.controls) {
      const value = c.value();
      if (value === undefined) continue;
      if (c.sound) (values[c.widget.name] ??= {})[c.sound] = value; else values[c.widget.name] = value;
    }
    return values;
  }

  /** What is still to be done, each with what should get the focus. */
  missing() {
    const tiles = this.screen.hear_all ? this.tiles.filter(({ track }) => !this.player.heardAll(track)) : [];
    const labels = listed(tiles.map((t) => t.track.label));
    const sounds = tiles.length ? [{ words: `play ${labels} to the end`, focus: () => tiles[0].button.focus() }] : [];
    const rated = this.controls.filter((c) => c.missing() && c.sound && c.widget.kind === "slide");
    const rates = rated.length ? [{ words: `rate ${listed(rated.map((c) => c.sound))}`, focus: rated[0].focus }] : [];
    const others = this.controls.filter((c) => c.missing() && !rated.includes(c));
    return [...sounds, ...rates, ...others.map((c) => ({ words: c.missing(), focus: c.focus }))];
  }

  /** Beside the button: what went wrong, or what is missing once the listener wanted to go on. */
  tell() {
    const missing = this.asked ? this.missing() : [];
    this.hint.textContent = this.problem || (missing.length ? `Before you go on: ${missing.map((m) => m.words).join("; ")}.` : "");
  }

  say(problem) {
    this.problem = problem;
    this.tell();
  }

  submit() {
    if (this.sending) return;
    this.asked = true;
    this.say("");
    const [first] = this.missing();
    if (first) {
      first.focus();
      return;
    }
    this.player.stop();
    const response_ms = Math.min(1e9, Math.round(performance.now() - this.shown_at));
    this.lock(true);
    this.send({ screen: this.screen.id, answer: this.values(), playback: this.player.playback(), response_ms });
  }

  /** While an answer is on its way nothing on the screen can be changed. */
  lock(on, words = on ? "Saving…" : "Continue") {
    this.sending = on;
    this.form.inert = on;
    this.form.setAttribute("aria-busy", String(on));
    this.button.textContent = words;
  }

  /** The answer is stored: it stands, and the sounds can be played again. */
  settle() {
    this.form.inert = false;
    this.form.setAttribute("aria-busy", "false");
    this.controls.forEach((c) => { c.element.inert = true; });
    this.form.querySelector(".end").remove();
    this.settled = true;
  }

  close() {
    this.sending = true;
    this.player.close();
    this.keys.close();
    removeEventListener("pagehide", this.saved);
  }
}
