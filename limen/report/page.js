"use strict";
(() => {
  // theme: the system's until the reader chooses
  const root = document.documentElement, theme = document.getElementById("theme");
  const dark = () => (root.style.colorScheme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => { theme.textContent = dark() ? "Light" : "Dark"; theme.setAttribute("aria-label", "Switch to " + theme.textContent.toLowerCase() + " colours"); };
  theme.hidden = false;
  theme.addEventListener("click", () => { root.style.colorScheme = dark() ? "light" : "dark"; name(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();

  // folded parts open for printing
  let folded = [];
  addEventListener("beforeprint", () => { folded = [...document.querySelectorAll("details:not([open])")]; folded.forEach((d) => { d.open = true; }); });
  addEventListener("afterprint", () => folded.forEach((d) => { d.open = false; }));

  // tables: a heading sorts by its column, numbers first where they are numbers; samples without a value come last
  document.querySelectorAll("table.sortable").forEach((table) => {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    const value = (row, i) => { const cell = row.cells[i]; return cell.dataset.sort ?? cell.textContent.trim().replace("−", "-"); };
    if (body.rows.length > 1) heads.forEach((head, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down > 0 ? "ascending" : "descending");
        const rows = [...body.rows].map((row) => [row, value(row, i), parseFloat(value(row, i))]);
        const numbers = rows.every(([, text, n]) => text === "" || text === "–" || !Number.isNaN(n));
        rows.sort(([, a, x], [, b, y]) => numbers ? (Number.isNaN(x) - Number.isNaN(y)) || down * (x - y) || 0 : down * a.localeCompare(b));
        body.append(...rows.map(([row]) => row));
      });
    });
  });

  // players: the three clips of an example start together and all but one are silent, so switching is exact to the sample
  root.classList.add("js");
  let context = null, playing = null;
  const decode = async (audio) => {
    const bytes = Uint8Array.from(atob(audio.src.split(",")[1]), (c) => c.charCodeAt(0));
    return context.decodeAudioData(bytes.buffer);
  };

  class Example {
    constructor(group) {
      this.group = group;
      this.tracks = [...group.querySelectorAll(".one")].map((el) => ({
        el, role: el.dataset.role, audio: el.querySelector("audio"), button: el.querySelector(".play"), head: el.querySelector(".head"),
        louder: el.querySelector(".louder"), gain: 1 }));
      this.tracks.forEach((track, i) => {
        track.button.hidden = false;
        track.button.addEventListener("click", () => this.press(i));
        if (track.louder) {
          track.louder.hidden = false;
          track.louder.addEventListener("click", () => {
            track.gain = track.gain > 1 ? 1 : Number(track.louder.dataset.gain);
            track.louder.setAttribute("aria-pressed", String(track.gain > 1));
            if (playing === this) this.select(i); else this.start(i);
          });
        }
        track.el.querySelector(".stage").addEventListener("click", () => { track.button.focus(); this.press(i); });
      });
      group.addEventListener("keydown", (event) => {
        if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
        event.preventDefault();
        const to = this.tracks.findIndex((t) => t.role === (event.key === "ArrowLeft" ? "clean" : "adversarial"));
        this.tracks[to].button.focus();
        if (playing === this) this.select(to); else this.start(to);
      });
    }

    press(i) {
      if (playing === this && this.selected === i) this.stop();
      else if (playing === this) this.select(i);
      else this.start(i);
    }

    async start(i) {
      if (playing) playing.stop();
      context = context || new AudioContext();
      playing = this;
      this.select(i);
      try {
        if (context.state === "suspended") await context.resume();
        this.buffers = this.buffers || await Promise.all(this.tracks.map((t) => decode(t.audio)));
      } catch (error) {
        this.stop();
        this.group.classList.add("broken");
        return;
      }
      if (playing !== this) return;
      const loop = this.group.closest("section").querySelector(".loop");
      this.begin = context.currentTime + 0.03;
      this.duration = Math.max(...this.buffers.map((b) => b.duration));
      this.gains = this.buffers.map(() => context.createGain());
      this.sources = this.buffers.map((buffer, k) => {
        const source = context.createBufferSource();
        source.buffer = buffer;
        source.loop = Boolean(loop && loop.checked);
        source.connect(this.gains[k]).connect(context.destination);
        source.start(this.begin);
        return source;
      });
      this.loops = this.sources[0].loop;
      this.select(this.selected);
      this.tick();
    }

    select(i) {
      this.selected = i;
      this.tracks.forEach((t, k) => {
        t.el.classList.toggle("on", k === i);
        t.button.setAttribute("aria-pressed", String(k === i));
        // five milliseconds of fade: no click
        if (this.gains) this.gains[k].gain.setTargetAtTime(k === i ? t.gain : 0, context.currentTime, 0.005);
      });
    }

    tick() {
      if (playing !== this) return;
      const t = context.currentTime - this.begin;
      if (t > this.duration && !this.loops) { this.stop(); return; }
      const share = Math.max(0, this.loops ? (t % this.duration) / this.duration : t / this.duration);
      this.tracks.forEach((track) => { track.head.style.left = (100 * share).toFixed(2) + "%"; });
      requestAnimationFrame(() => this.tick());
    }

    stop() {
      (this.sources || []).forEach((s) => s.stop());
      this.sources = this.gains = null;
      if (playing === this) playing = null;
      this.tracks.forEach((t) => { t.el.classList.remove("on"); t.button.setAttribute("aria-pressed", "false"); t.head.style.left = "0"; });
    }
  }
  document.querySelectorAll(".clip .trio").forEach((group) => new Example(group));
})();
