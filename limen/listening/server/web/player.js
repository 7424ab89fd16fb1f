// Plays the sounds of a screen on one clock. Pressing a sound plays it; pressing another one starts that one from its beginning or, on screens
// that compare sounds at the same position (ABX, preference, MUSHRA), switches to the same sample of the other sound. All starts, ends and
// switches are ramps.
//
// A play is one start, or one repetition of a loop. Switching is part of the play: with a limit, sounds that can be switched share their plays,
// and a play that has begun continues to its end.

import { retryAfter, serverUrl, wait } from "./net.js";
import { digest, parse, toBuffer } from "./wav.js";

export const RAMP_S = 0.008;
const LEAD_S = 0.02;  // events are scheduled this far ahead of the clock, so that none is late
const NEVER_S = 1e9;
const MAX_BUSY_TRIES = 20;
let context = null, context_hz = 0, device_hz = 0;

/** Voices of the same length that start together at `begin_s` and play `passes` times; one of them is audible. Works with an
 * OfflineAudioContext as well. */
export class Voices {
  constructor(audio, buffers, { begin_s, audible, passes = 1 }) {
    // the browser would interpolate between two samples
    begin_s = Math.ceil(begin_s * audio.sampleRate - 1e-3) / audio.sampleRate;
    this.begin_s = begin_s;
    this.duration_s = Math.max(...buffers.map((b) => b.duration));
    this.switched_s = begin_s;  // when the last crossfade ends
    this.audible = audible;
    this.completed = 0;  // passes that are over
    this.output = audio.createGain();
    this.envelope = audio.createGain();
    this.envelope.gain.setValueAtTime(0, begin_s);
    this.envelope.gain.linearRampToValueAtTime(1, begin_s + RAMP_S);
    this.envelope.connect(this.output).connect(audio.destination);
    this.gains = buffers.map((_, i) => {
      const gain = audio.createGain();
      gain.gain.setValueAtTime(i === audible ? 1 : 0, 0);
      gain.connect(this.envelope);
      return gain;
    });
    this.sources = buffers.map((buffer, i) => {
      const source = audio.createBufferSource();
      source.buffer = buffer;
      source.loop = true;  // `endAfter` decides when it ends
      source.connect(this.gains[i]);
      source.start(begin_s);
      return source;
    });
    this.end_s = NEVER_S;
    this.endAfter(passes);
  }

  /** Ends after this many passes, counted from the start, whatever was scheduled before. */
  endAfter(passes) {
    if (this.end_s < NEVER_S) this.envelope.gain.cancelScheduledValues(this.end_s - 1.5 * RAMP_S);
    this.end_s = Math.min(NEVER_S, this.begin_s + passes * this.duration_s);
    if (this.end_s < NEVER_S) {
      this.envelope.gain.setValueAtTime(1, this.end_s - RAMP_S);
      this.envelope.gain.linearRampToValueAtTime(0, this.end_s);
    }
    this.sources.forEach((source) => source.stop(this.end_s));
  }

  /** Crossfades to another voice at the same position. Versions of one sound are correlated, so their gains must add to one: with an
   * equal-power crossfade X would become 3 dB louder on its way to the A that it equals. */
  switchTo(i, at_s) {
    const t = Math.max(at_s, this.switched_s);
    for (const [voice, from] of [[this.audible, 1], [i, 0]]) {
      this.gains[voice].gain.setValueAtTime(from, t);
      this.gains[voice].gain.linearRampToValueAtTime(1 - from, t + RAMP_S);
    }
    this.audible = i;
    this.switched_s = t + RAMP_S;
  }

  stop(at_s) {
    this.output.gain.setValueAtTime(1, at_s);
    this.output.gain.linearRampToValueAtTime(0, at_s + RAMP_S);
    this.sources.forEach((source) => { source.onended = null; source.stop(at_s + RAMP_S); });
  }
}

/** Played spans of a sound, with [from, to] added: sorted and merged. */
export function withSpan(spans, from, to) {
  const merged = [];
  for (const [a, b] of [...spans, [from, to]].filter(([a, b]) => b > a).sort((p, q) => p[0] - q[0])) {
    const last = merged[merged.length - 1];
    if (last && a <= last[1] + 0.02) last[1] = Math.max(last[1], b); else merged.push([a, b]);
  }
  return merged;
}

/** Tracks: {label, state: loading | ready | broken, plays, switches, played_s, spans, ...}. `onChange(what)` is called whenever one of them
 * changes, `onGone()` when the server no longer has the sounds. */
export class Player {
  constructor(sounds, { plays = null, switching = false, before = {}, onChange, onGone }) {
    this.limit = plays;
    this.switching = switching;
    this.loop = false;
    this.onChange = onChange;
    this.onGone = onGone;
    this.voices = null;
    this.problem = "";
    this.tracks = sounds.map((s) => ({ ...s, state: "loading", plays: 0, switches: 0, played_s: 0, spans: [], ...before[s.label] }));
    this.tracks.forEach((track) => this.load(track));
  }

  async load(track) {
    track.state = "loading";
    this.onChange("load");
    for (let tries = 0; track.state === "loading"; tries++) {
      let wait_s = 2 ** tries / 2;
      try {
        const reply = await fetch(serverUrl(track.url), { cache: "no-store", credentials: "same-origin" });
        wait_s = retryAfter(reply) ?? wait_s;
        if (reply.status === 404 || reply.status === 401) { this.onGone(); throw new Error("gone"); }
        if (reply.status === 429 && tries < MAX_BUSY_TRIES) { await wait(wait_s, false); continue; }
        if (!reply.ok) throw new Error(`status ${reply.status}`);
        const wav = parse(await reply.arrayBuffer());
        [track.buffer, track.digest, track.rate_hz] = [toBuffer(wav), await digest(wav.pcm), wav.rate_hz];
        track.state = "ready";
      } catch (error) {
        if (tries < 2 && error instanceof TypeError) await wait(wait_s);
        else track.state = "broken";
      }
    }
    this.onChange(track.state === "broken" ? "broken" : "load");
  }

  /** The track that is audible now, or null. */
  get playing() { return this.voices ? this.tracks[this.audible] : null; }

  heardCompletely(track) {
    return Boolean(track.buffer) && track.spans.some(([a, b]) => a <= 0.02 && b >= track.buffer.duration - 0.05);
  }

  /** Plays that the limit allows: of each sound, or of all together if they can be switched. */
  get maxPlays() { return this.limit === null ? Infinity : this.limit * (this.switching ? this.tracks.length : 1); }

  /** Plays that a sound has left. */
  playsLeft(track) {
    const counted = this.switching ? this.tracks : [track];
    return Math.max(0, this.maxPlays - counted.reduce((sum, t) => sum + t.plays, 0));
  }

  /** Whether a sound can be started. A sound that was interrupted before it was ever heard completely can be started once more. */
  canStart(track) {
    return this.playsLeft(track) > 0 || !(this.heardCompletely(track) || this.playing === track);
  }

  /** Whether pressing the sound has an effect. */
  canPress(track) {
    // sounds can be switched only once all of them are loaded
    if (this.starting || !(this.switching ? this.tracks : [track]).every((t) => t.state === "ready")) return false;
    if (!this.voices) return this.canStart(track);
    if (this.limit === null) return true;
    return this.switching && !this.extra && this.playing !== track;
  }

  async press(track) {
    if (!this.canPress(track)) return;
    const i = this.tracks.indexOf(track);
    if (this.playing === track) this.stop();
    else if (this.voices && this.switching) this.switchTo(i);
    else await this.start(i);
  }

  async start(i) {
    const track = this.tracks[i];
    this.stop();
    this.starting = true;
    this.problem = "";
    const ready = await openContext(track.rate_hz);
    this.starting = false;
    if (this.closed) return;
    if (!ready) {
      this.problem = "The browser did not let this page play sound. Check that sound is allowed and that an audio device is connected, then press again.";
      this.onChange("problem");
      return;
    }
    const voices = this.switching ? this.tracks : [track], left = this.playsLeft(track);
    this.extra = left === 0;  // a start beyond the limit, to hear the sound completely: it cannot be switched or repeated
    const options = { begin_s: context.currentTime + LEAD_S, audible: voices.indexOf(track), passes: this.loop && !this.extra ? left : 1 };
    this.voices = new Voices(context, voices.map((t) => t.buffer), options);
    this.voices.sources[0].onended = () => this.ended();
    context.onstatechange = () => { if (context?.state !== "running") this.stop(); };  // a phone call, or the audio device was removed
    track.plays += 1;
    this.setAudible(i, this.voices.begin_s);
  }

  /** Switches to another sound at the same position. */
  switchTo(i) {
    const at_s = Math.max(context.currentTime + LEAD_S, this.voices.switched_s);
    if (at_s > this.voices.end_s - RAMP_S) return;  // it is about to end
    this.voices.switchTo(i, at_s);
    this.countUntil(at_s);
    this.tracks[i].switches += 1;
    this.setAudible(i, at_s);
  }

  setAudible(i, from_s) {
    this.audible = i;
    this.counted_s = from_s;
    this.onChange("play");
  }

  /** Repeats at the end instead of stopping, or no longer does; what is playing continues. */
  setLoop(on) {
    this.loop = on;
    if (this.voices && !this.extra) {
      this.countUntil(context.currentTime);
      const { begin_s, duration_s, end_s, completed } = this.voices;
      // the end can no longer be changed once its ramp has begun
      const earliest_s = context.currentTime + LEAD_S + 1.5 * RAMP_S;
      const started = completed + (earliest_s > begin_s + (completed + 1) * duration_s ? 2 : 1);
      const allowed = completed + 1 + this.playsLeft(this.playing);
      if (earliest_s < end_s) this.voices.endAfter(on ? allowed : Math.min(started, allowed));
    }
    this.onChange("loop");
  }

  /** Adds what was played since `counted_s` to the audible track; every repetition is another play. */
  countUntil(until_s) {
    const track = this.playing, { begin_s, duration_s, end_s } = this.voices;
    for (let more = true; more;) {
      const start_s = begin_s + this.voices.completed * duration_s, to_s = Math.min(until_s, start_s + duration_s);
      if (to_s > this.counted_s) {
        track.played_s += to_s - this.counted_s;
        track.spans = withSpan(track.spans, this.counted_s - start_s, to_s - start_s);
        this.counted_s = to_s;
      }
      more = until_s > start_s + duration_s && end_s > start_s + 1.5 * duration_s;
      if (more) {
        this.voices.completed += 1;
        track.plays += 1;
        this.onChange("repeat");
      }
    }
  }

  ended() {
    this.countUntil(this.voices.end_s);
    this.voices = null;
    this.onChange("end");
  }

  stop() {
    if (!this.voices) return;
    const now_s = context.currentTime;
    this.countUntil(Math.min(now_s, this.voices.end_s));
    this.voices.stop(now_s);
    this.voices = null;
    this.onChange("stop");
  }

  /** Playback position, from 0 to 1. */
  position() {
    if (!this.voices) return 0;
    this.countUntil(Math.min(context.currentTime, this.voices.end_s));
    const { begin_s, duration_s, completed } = this.voices;
    return Math.min(1, Math.max(0, (context.currentTime - begin_s) / duration_s - completed));
  }

  close() {
    this.closed = true;
    this.stop();
  }

  /** The report that is stored with the answer. */
  playback() {
    return this.tracks.map((track) => ({
      label: track.label, digest: track.digest ?? null, rate_hz: device_hz, plays: track.plays, switches: track.switches,
      played_s: Math.round(1000 * track.played_s) / 1000,
    }));
  }
}

/** Opens a running context at the sample rate of the file, so that the browser's own converter gets unchanged samples. Called from a click:
 * before a user gesture, browsers keep a page silent. */
async function openContext(rate_hz) {
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
        context = new AudioContext();  // the browser's output does not support this rate
      }
      context_hz = rate_hz;
    }
    if (context.state !== "running") await Promise.race([context.resume(), new Promise((done) => { setTimeout(done, 4000); })]);
    return context.state === "running";
  } catch {
    return false;
  }
}
