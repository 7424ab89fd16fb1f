// The sounds of a screen on one clock. A sound is played by pressing it; pressing another one starts that one from its beginning or, where
// sounds are compared at the same place (ABX, preference, MUSHRA), goes on at the same sample in the other sound. All starts, ends and
// switches are ramps.
//
// A play is one start, or one more time round of a loop. Switching is part of the play: with a limit, the plays of sounds that can be
// switched belong to all of them together, and a play that has begun goes on to its end.

import { rest, under, waitOf } from "./net.js";
import { buffer, digest, parse } from "./wav.js";

export const RAMP_S = 0.008;
const LEAD_S = 0.02;  // events lie this far ahead of the clock, so none is late
const NEVER_S = 1e9;
let context = null, context_hz = 0, device_hz = 0;

/** Voices of the same length that start together at `begin_s` and go round `passes` times; only one of them is heard. Used with an
 * OfflineAudioContext as with a real one. */
export class Voices {
  constructor(audio, buffers, { begin_s, heard, passes = 1 }) {
    // between two samples the browser would interpolate
    begin_s = Math.ceil(begin_s * audio.sampleRate - 1e-3) / audio.sampleRate;
    this.begin_s = begin_s;
    this.duration_s = Math.max(...buffers.map((b) => b.duration));
    this.settled_s = begin_s;
    this.heard = heard;
    this.passed = 0;  // times round that are over
    this.out = audio.createGain();
    this.edge = audio.createGain();
    this.edge.gain.setValueAtTime(0, begin_s);
    this.edge.gain.linearRampToValueAtTime(1, begin_s + RAMP_S);
    this.edge.connect(this.out).connect(audio.destination);
    this.gains = buffers.map((_, i) => {
      const gain = audio.createGain();
      gain.gain.setValueAtTime(i === heard ? 1 : 0, 0);
      gain.connect(this.edge);
      return gain;
    });
    this.sources = buffers.map((sound, i) => {
      const source = audio.createBufferSource();
      source.buffer = sound;
      source.loop = true;  // it always could go on; when it ends is said by `until`
      source.connect(this.gains[i]);
      source.start(begin_s);
      return source;
    });
    this.end_s = NEVER_S;
    this.until(passes);
  }

  /** Ends after so many times round, counted from the start, whatever was planned before. */
  until(passes) {
    if (this.end_s < NEVER_S) this.edge.gain.cancelScheduledValues(this.end_s - 1.5 * RAMP_S);
    this.end_s = Math.min(NEVER_S, this.begin_s + passes * this.duration_s);
    if (this.end_s < NEVER_S) {
      this.edge.gain.setValueAtTime(1, this.end_s - RAMP_S);
      this.edge.gain.linearRampToValueAtTime(0, this.end_s);
    }
    this.sources.forEach((source) => source.stop(this.end_s));
  }

  /** Crossfades to another voice at the same place of the sound. Versions of one sound are alike, so their gains must add to one: with equal
   * powers X would swell by 3 dB on its way to the A that it is. */
  hear(i, at_s) {
    const t = Math.max(at_s, this.settled_s);
    for (const [voice, from] of [[this.heard, 1], [i, 0]]) {
      this.gains[voice].gain.setValueAtTime(from, t);
      this.gains[voice].gain.linearRampToValueAtTime(1 - from, t + RAMP_S);
    }
    this.heard = i;
    this.settled_s = t + RAMP_S;
  }

  stop(at_s) {
    this.out.gain.setValueAtTime(1, at_s);
    this.out.gain.linearRampToValueAtTime(0, at_s + RAMP_S);
    this.sources.forEach((source) => { source.onended = null; source.stop(at_s + RAMP_S); });
  }
}

/** Spans of a sound that were heard, with [from, to] added: sorted and merged. */
export function withSpan(spans, from, to) {
  const merged = [];
  for (const [a, b] of [...spans, [from, to]].filter(([a, b]) => b > a).sort((p, q) => p[0] - q[0])) {
    const last = merged[merged.length - 1];
    if (last && a <= last[1] + 0.02) last[1] = Math.max(last[1], b); else merged.push([a, b]);
  }
  return merged;
}

/** Tracks: {label, state: loading | ready | broken, plays, switches, played_s, spans, ...}. `changed(what)` is called whenever one is
 * different. */
export class Player {
  constructor(sounds, { plays = null, switching = false, before = {}, changed, gone }) {
    this.limit = plays;
    this.switching = switching;
    this.loop = false;
    this.changed = changed;
    this.gone = gone;
    this.voices = null;
    this.trouble = "";
    this.tracks = sounds.map((s) => ({ ...s, state: "loading", plays: 0, switches: 0, played_s: 0, spans: [], ...before[s.label] }));
    this.tracks.forEach((track) => this.load(track));
  }

  async load(track) {
    track.state = "loading";
    this.changed("load");
    for (let tries = 0; track.state === "loading"; tries++) {
      let wait_s = 2 ** tries / 2;
      try {
        const reply = await fetch(under(track.url), { cache: "no-store", credentials: "same-origin" });
        wait_s = waitOf(reply) ?? wait_s;
        if (reply.status === 404 || reply.status === 401) { this.gone(); throw new Error("gone"); }
        if (reply.status === 429 && tries < 20) { await rest(wait_s, false); continue; }
        if (!reply.ok) throw new Error(`The server said ${reply.status}.`);
        const wav = parse(await reply.arrayBuffer());
        [track.buffer, track.digest, track.rate_hz] = [buffer(wav), await digest(wav.pcm), wav.rate_hz];
        track.state = "ready";
      } catch (error) {
        if (tries < 2 && error instanceof TypeError) await rest(wait_s);
        else track.state = "broken";
      }
    }
    this.changed(track.state === "broken" ? "broken" : "load");
  }

  /** What is heard now, or null. */
  get sounding() { return this.voices ? this.tracks[this.heard] : null; }

  heardAll(track) {
    return Boolean(track.buffer) && track.spans.some(([a, b]) => a <= 0.02 && b >= track.buffer.duration - 0.05);
  }

  /** Plays that the limit allows: of each sound, or of all together if they can be switched. */
  get most() { return this.limit === null ? Infinity : this.limit * (this.switching ? this.tracks.length : 1); }

  /** How many of them are left for a sound. */
  left(track) {
    const counted = this.switching ? this.tracks : [track];
    return Math.max(0, this.most - counted.reduce((sum, t) => sum + t.plays, 0));
  }

  /** Whether a sound can be started. One that broke off before it was ever heard whole does not lock the listener out. */
  startable(track) {
    return this.left(track) > 0 || !(this.heardAll(track) || this.sounding === track);
  }

  /** Whether pressing it does something. */
  open(track) {
    // sounds that go on in one another must all be there
    if (this.starting || !(this.switching ? this.tracks : [track]).every((t) => t.state === "ready")) return false;
    if (!this.voices) return this.startable(track);
    if (this.limit === null) return true;
    return this.switching && !this.extra && this.sounding !== track;
  }

  async press(track) {
    if (!this.open(track)) return;
    const i = this.tracks.indexOf(track);
    if (this.sounding === track) this.stop();
    else if (this.voices && this.switching) this.turn(i);
    else await this.start(i);
  }

  async start(i) {
    const track = this.tracks[i];
    this.stop();
    this.starting = true;
    this.trouble = "";
    const ready = await awake(track.rate_hz);
    this.starting = false;
    if (this.closed) return;
    if (!ready) {
      this.trouble = "This browser does not let the page play sound. Check that it may and that there is a sound device, then press again.";
      this.changed("trouble");
      return;
    }
    const played = this.switching ? this.tracks : [track], left = this.left(track);
    this.extra = left === 0;  // beyond the limit, to be heard at last: it cannot be left for another sound, nor go round
    const how = { begin_s: context.currentTime + LEAD_S, heard: played.indexOf(track), passes: this.loop && !this.extra ? left : 1 };
    this.voices = new Voices(context, played.map((t) => t.buffer), how);
    this.voices.sources[0].onended = () => this.ended();
    context.onstatechange = () => { if (context?.state !== "running") this.stop(); };  // a call came in, the device was taken away
    track.plays += 1;
    this.goOn(i, this.voices.begin_s);
  }

  /** On to another sound at the same place. */
  turn(i) {
    const at_s = Math.max(context.currentTime + LEAD_S, this.voices.settled_s);
    if (at_s > this.voices.end_s - RAMP_S) return;  // it is ending
    this.voices.hear(i, at_s);
    this.note(at_s);
    this.tracks[i].switches += 1;
    this.goOn(i, at_s);
  }

  goOn(i, from_s) {
    this.heard = i;
    this.from_s = from_s;
    this.changed("play");
  }

  /** Goes round at the end instead of stopping, or no longer; what plays goes on where it is. */
  repeat(on) {
    this.loop = on;
    if (this.voices && !this.extra) {
      this.note(context.currentTime);
      const { begin_s, duration_s, end_s, passed } = this.voices;
      // too late to change an end that is falling already
      const soon_s = context.currentTime + LEAD_S + 1.5 * RAMP_S;
      const now = passed + (soon_s > begin_s + (passed + 1) * duration_s ? 2 : 1);
      if (soon_s < end_s) this.voices.until(on ? passed + 1 + this.left(this.sounding) : Math.min(now, passed + 1 + this.left(this.sounding)));
    }
    this.changed("loop");
  }

  /** Books what was heard since `from_s` on the track that sounded; every time round is a play more. */
  note(until_s) {
    const track = this.sounding, { begin_s, duration_s, end_s } = this.voices;
    for (let over = true; over;) {
      const start_s = begin_s + this.voices.passed * duration_s, to_s = Math.min(until_s, start_s + duration_s);
      if (to_s > this.from_s) {
        track.played_s += to_s - this.from_s;
        track.spans = withSpan(track.spans, this.from_s - start_s, to_s - start_s);
        this.from_s = to_s;
      }
      over = until_s > start_s + duration_s && end_s > start_s + 1.5 * duration_s;
      if (over) {
        this.voices.passed += 1;
        track.plays += 1;
        this.changed("round");
      }
    }
  }

  ended() {
    this.note(this.voices.end_s);
    this.voices = null;
    this.changed("end");
  }

  stop() {
    if (!this.voices) return;
    const now_s = context.currentTime;
    this.note(Math.min(now_s, this.voices.end_s));
    this.voices.stop(now_s);
    this.voices = null;
    this.changed("stop");
  }

  /** Where it is, from 0 to 1. */
  place() {
    if (!this.voices) return 0;
    this.note(Math.min(context.currentTime, this.voices.end_s));
    const { begin_s, duration_s, passed } = this.voices;
    return Math.min(1, Math.max(0, (context.currentTime - begin_s) / duration_s - passed));
  }

  close() {
    this.closed = true;
    this.stop();
  }

  /** What is to be stored with the answer. */
  playback() {
    return this.tracks.map(({ label, digest: heard, plays, switches, played_s }) => ({
      label, digest: heard ?? null, rate_hz: device_hz, plays, switches, played_s: Math.round(1000 * played_s) / 1000,
    }));
  }
}

/** Makes a running context at the rate of the file: samples reach the browser's own converter unchanged, not interpolated on the way.
 * Called from a press: before a gesture, browsers keep a page silent. */
async function awake(rate_hz) {
  try {
    if (!device_hz) {
      const device = new AudioContext();
      device_hz = device.sampleRate;
      device.close();
    }
    if (!context || context_hz !== rate_hz) {
      context?.close();
      try {
        context = new AudioContext({ sampleRate: rate_hz });
      } catch {
        context = new AudioContext();  // a rate this browser's output cannot be opened at
      }
      context_hz = rate_hz;
    }
    if (context.state !== "running") await Promise.race([context.resume(), new Promise((done) => { setTimeout(done, 4000); })]);
    return context.state === "running";
  } catch {
    return false;
  }
}
