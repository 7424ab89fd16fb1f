// One screen of a study: text, sounds, questions, and a button that sends the answer once it is complete.

import { loadDraft, saveDraft } from "./storage.js";
import { Shortcuts } from "./shortcuts.js";
import { Player } from "./player.js";
import { control, make, scale } from "./widgets.js";

const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`);

/** Plain paragraphs, separated by empty lines. */
export const paragraphs = (text) => text.split(/\n\s*\n/).map((p) => p.trim()).filter(Boolean).map((p) => make("p", {}, p));

export class Screen {
  /** `send({screen, answer, playback, response_ms})` is called when the screen is complete, `decline()` when the listener does not agree,
   * `reportEvent(kind)` when a sound fails, `soundsGone()` when the server no longer has the sounds. */
  constructor(screen, { title, send, decline, reportEvent, soundsGone }) {
    Object.assign(this, { screen, send, decline, reportEvent, submitted: false, problem: "", sending: false, touched: false, frozen: false });
    this.draft = loadDraft(screen.id);
    this.shown_at = performance.now() - this.draft.spent_ms;
    this.heading = make("h1", { tabindex: "-1" }, screen.title || title);
    this.hint = make("p", { class: "hint", id: "hint", role: "status" });
    this.button = make("button", { type: "submit", class: "go", "aria-describedby": "hint" }, "Continue");
    this.form = make("form", { novalidate: true, "data-kind": screen.kind, class: screen.plays === null ? "" : "limited" });
    this.tiles = [];
    this.player = new Player(screen.sounds, {
      plays: screen.plays, switching: screen.switch, before: this.draft.sounds, onGone: soundsGone, onChange: (what) => this.playerChanged(what) });
    const rated = screen.sounds.filter((s) => s.rated);
    this.controls = screen.widgets.flatMap((w, n) => (
      w.each_sound ? rated.map((s, k) => this.control(w, `w${n}-${k}`, s.label)) : [this.control(w, `w${n}`)]));
    this.shortcuts = new Shortcuts(this);
    this.element = this.build();
    for (const c of this.controls) {
      const value = c.sound ? this.draft.values[c.widget.name]?.[c.sound] : this.draft.values[c.widget.name];
      if (value !== undefined) c.restore(value);
    }
    this.draw();
  }

  control(widget, id, sound) {
    return control(widget, id, () => this.controlChanged(), sound);
  }

  build() {
    const { screen, player } = this, perSound = screen.widgets.filter((w) => w.each_sound);
    const tiles = player.tracks.map((track) => this.tile(track));
    const withoutControls = perSound.length ? [] : tiles;
    const controlsOf = (track) => (track.rated ? this.controls.filter((c) => c.sound === track.label).map((c) => c.element)
      : [make("p", { class: "note" }, "For comparison; it is not rated.")]);
    const row = (track, i) => make("li", { class: "row" }, tiles[i], make("div", {}, ...controlsOf(track)));
    const rows = perSound.length ? player.tracks.map(row) : [];
    const [first] = perSound;
    this.form.append(
      ...(withoutControls.length ? [make("div", { class: "sounds", role: "group", "aria-label": "Sounds" }, ...withoutControls)] : []),
      ...(rows.length ? [make("fieldset", { class: "widget each" }, make("legend", {}, listed(perSound.map((w) => w.question))),
        ...(first.anchors.length ? [make("div", { class: "row scale" }, make("span"), scale(first), make("span"))] : []),
        make("ul", {}, ...rows))] : []),
      ...(player.maxPlays > 1 && tiles.length ? [this.transport()] : []),
      ...this.controls.filter((c) => !c.sound).map((c) => c.element),
      this.shortcuts.help,
      make("div", { class: "end" }, this.button, ...this.declineButton(), this.hint));
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
    this.onPageHide = () => { this.player.stop(); this.save(); };
    addEventListener("pagehide", this.onPageHide);
    return make("section", {}, this.heading, make("div", { class: "text" }, ...paragraphs(screen.text)), this.form);
  }

  tile(track) {
    const name = make("span", { class: "name" }, track.label), n = this.tiles.length;
    const state = make("span", { class: "state", id: `state${n}` }), left = make("span", { class: "left", id: `left${n}` });
    const fill = make("span", { class: "fill" });
    const letter = this.shortcuts.letterOf(track);
    const hint = letter && letter !== track.label ? [make("kbd", { "aria-hidden": "true" }, letter)] : [];
    const button = make("button", { type: "button", class: "sound", "aria-describedby": `${state.id} ${left.id}`, "aria-keyshortcuts": letter },
      make("span", { class: "sign", "aria-hidden": "true" }), name, ...hint, fill);
    const again = make("button", { type: "button", class: "quiet", hidden: true }, "Try again",
      make("span", { class: "visually-hidden" }, ` to load ${track.label}`));
    // a click on a sound does not move the focus, so that Enter still continues; Tab reaches the button
    button.addEventListener("mousedown", (event) => event.preventDefault());
    button.addEventListener("click", () => this.player.press(track));
    again.addEventListener("click", () => { button.focus(); this.player.load(track); });
    const element = make("div", { class: "tile" }, button, make("div", {}, state, left), again);
    this.tiles.push({ track, element, button, state, left, fill, again });
    return element;
  }

  /** The loop switch, and the number of plays left if all sounds share them. */
  transport() {
    const { player } = this;
    this.loop = make("input", { type: "checkbox", "aria-keyshortcuts": "L" });
    this.loop.addEventListener("change", () => player.setLoop(this.loop.checked));
    this.sharedPlays = make("p", { class: "note", id: "plays" });
    const cost = player.limit === null ? "" : " (each repetition counts as a play)";
    return make("div", { class: "transport" },
      make("label", { class: "repeat" }, this.loop, make("span", {}, `Repeat${cost}`), make("kbd", { "aria-hidden": "true" }, "L")), this.sharedPlays);
  }

  /** The button for listeners who do not agree. */
  declineButton() {
    if (!this.screen.decline) return [];
    const button = make("button", { type: "button", class: "decline" }, this.screen.decline);
    button.addEventListener("click", () => { if (!this.sending) { this.lock(true, this.button.textContent); this.decline(); } });
    return [button];
  }

  playerChanged(what) {
    if (what === "play") { this.problem = ""; this.touched = true; }
    this.draw();
    if (what === "problem") this.showProblem(this.player.problem);
    if (what === "problem" || what === "broken") this.reportEvent(what === "broken" ? "sound.broken" : "sound.silent");
    if (what === "play") this.drawPosition();
    if (what !== "load" && what !== "broken") this.save();
  }

  controlChanged() {
    this.touched = true;
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
    const { player } = this, canSwitch = player?.switching && player.voices;  // no player yet: its constructor reports changes, too
    for (const { track, element, button, state, left, again } of this.tiles) {
      const on = player.playing === track, heard = player.heardCompletely(track);
      element.classList.toggle("on", on);
      element.classList.toggle("heard", heard);
      element.classList.toggle("broken", track.state === "broken");
      const action = on && player.limit === null ? "Stop" : canSwitch && !on ? "Switch to" : "Play";
      button.setAttribute("aria-label", `${action} ${track.label}`);
      button.setAttribute("aria-disabled", String(!player.canPress(track)));
      again.hidden = track.state !== "broken";
      state.textContent = track.state === "loading" ? "Loading…" : track.state === "broken" ? "This sound could not be loaded."
        : on ? "Playing" : heard ? "Heard" : !this.screen.hear_all ? "" : track.spans.length ? "Heard in part" : "Not heard yet";
      left.textContent = player.limit === null || player.switching ? "" : `${player.playsLeft(track)} of ${player.maxPlays} plays left`;
    }
    if (this.sharedPlays && player.switching && player.limit !== null) {
      this.sharedPlays.textContent = `${player.playsLeft(player.tracks[0])} of ${player.maxPlays} plays left. Switching during a play is free.`;
    }
    this.drawHint();
  }

  /** Moves the line under a sound while it plays. */
  drawPosition() {
    const position = this.player.position();
    for (const { track, fill } of this.tiles) fill.style.setProperty("--place", this.player.playing === track ? position.toFixed(4) : "0");
    if (this.player.voices) requestAnimationFrame(() => this.drawPosition());
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

  /** What is still to be done: {text, focus()} for each. */
  missing() {
    const tiles = this.screen.hear_all ? this.tiles.filter(({ track }) => !this.player.heardCompletely(track)) : [];
    const labels = listed(tiles.map((t) => t.track.label));
    const sounds = tiles.length ? [{ text: `play ${labels} to the end`, focus: () => tiles[0].button.focus() }] : [];
    const unrated = this.controls.filter((c) => c.missing() && c.sound && c.widget.kind === "slide");
    const ratings = unrated.length ? [{ text: `rate ${listed(unrated.map((c) => c.sound))}`, focus: unrated[0].focus }] : [];
    const others = this.controls.filter((c) => c.missing() && !unrated.includes(c));
    return [...sounds, ...ratings, ...others.map((c) => ({ text: c.missing(), focus: c.focus }))];
  }

  /** Next to the button: what went wrong, or what is missing after an attempt to continue. */
  drawHint() {
    const missing = this.submitted ? this.missing() : [];
    this.hint.textContent = this.problem || (missing.length ? `Before you continue: ${missing.map((m) => m.text).join("; ")}.` : "");
  }

  showProblem(problem) {
    this.problem = problem;
    this.drawHint();
  }

  submit() {
    if (this.sending) return;
    this.submitted = true;
    this.showProblem("");
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

  /** While an answer is being sent, nothing on the screen can be changed. */
  lock(on, label = on ? "Saving…" : "Continue") {
    this.sending = on;
    this.form.inert = on;
    this.form.setAttribute("aria-busy", String(on));
    this.button.textContent = label;
  }

  /** After the answer is stored: it cannot be changed, but the sounds can be played again. */
  freeze() {
    this.form.inert = false;
    this.form.setAttribute("aria-busy", "false");
    this.controls.forEach((c) => { c.element.inert = true; });
    this.form.querySelector(".end").remove();
    this.frozen = true;
  }

  close() {
    this.sending = true;
    this.player.close();
    this.shortcuts.close();
    removeEventListener("pagehide", this.onPageHide);
  }
}
