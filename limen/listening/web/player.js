// The sounds of a screen on one clock. A sound is played by pressing it; pressing another one starts that one from its beginning, or, where
// sounds are compared at the same place (MUSHRA), goes on at the same sample in the other sound. All starts, ends and switches are ramps.

import { rest, under, waitOf } from "./net.js";
import { buffer, digest, parse } from "./wav.js";

export const RAMP_S = 0.008;
const LEAD_S = 0.02;  // events lie this far ahead of the clock, so none is late
let context = null, context_hz = 0, device_hz = 0;

/** Voices that start together at `begin_s`; only the first one listened to sounds. Used with an OfflineAudioContext as with a real one. */
export class Voices {
  constructor(audio, buffers, { begin_s, heard, loop = false }) {
    // between two samples the browser would interpolate
    begin_s = Math.ceil(begin_s * audio.sampleRate - 1e-3) / audio.sampleRate;
    this.begin_s = begin_s;
    this.duration_s = Math.max(...buffers.map((b) => b.duration));
    this.settled_s = begin_s;
    this.heard = heard;
    this.loop = loop;
    this.out = audio.createGain();
    const edge = audio.createGain();
    edge.gain.setValueAtTime(0, begin_s);
    edge.gain.linearRampToValueAtTime(1, begin_s + RAMP_S);
    if (!loop) {
      edge.gain.setValueAtTime(1, begin_s + this.duration_s - RAMP_S);
      edge.gain.linearRampToValueAtTime(0, begin_s + this.duration_s);
    }
    edge.connect(this.out).connect(audio.destination);
    this.gains = buffers.map((_, i) => {
      const gain = audio.createGain();
      gain.gain.setValueAtTime(i === heard ? 1 : 0, 0);
      gain.connect(edge);
      return gain;
    });
    this.sources = buffers.map((sound, i) => {
      const source = audio.createBufferSource();
      source.buffer = sound;
      source.loop = loop;
      source.connect(this.gains[i]);
      source.start(begin_s);
      return source;
    });
  }

  /** Crossfades to another voice at the same place of the sound. Two versions of one sound are alike: their linear gains add to one. */
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

/** Tracks: {label, state: loading | ready | broken, plays, played_s, spans, ...}. `changed(what)` is called whenever one is different. */
export class Player {
  constructor(sounds, { plays = null, follow = false, before = {}, changed, gone }) {
    this.limit = plays;
    this.follow = follow && plays === null;
    this.loop = false;
    this.changed = changed;
    this.gone = gone;
    this.voices = null;
    this.trouble = "";
    this.tracks = sounds.map((s) => ({ ...s, state: "loading", plays: 0, played_s: 0, spans: [], ...before[s.label] }));
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

  /** Plays left; null: no limit. One that broke off before the sound was ever heard whole does not lock the listener out. */
  left(track) {
    if (this.limit === null) return null;
    return Math.max(this.limit - track.plays, this.heardAll(track) || this.sounding === track ? 0 : 1);
  }

  /** Whether pressing it does something. With a limit, a play that has begun goes on to its end. */
  open(track) {
    // sounds that go on in one another must all be there
    if (this.starting || !(this.follow ? this.tracks : [track]).every((t) => t.state === "ready")) return false;
    return this.limit === null || (!this.voices && this.left(track) > 0);
  }

  async press(track) {
    if (!this.open(track)) return;
    const i = this.tracks.indexOf(track);
    if (this.sounding === track) this.stop();
    else if (this.voices && this.follow) this.turn(i);
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
    const played = this.follow ? this.tracks : [track];
    const heard = played.indexOf(track);
    const how = { begin_s: context.currentTime + LEAD_S, heard, loop: this.follow && this.loop };
    this.voices = new Voices(context, played.map((t) => t.buffer), how);
    const longest = this.voices.sources.reduce((a, b) => (b.buffer.duration > a.buffer.duration ? b : a));
    longest.onended = () => this.ended();
    context.onstatechange = () => { if (context?.state !== "running") this.stop(); };  // a call came in, the device was taken away
    this.count(i, this.voices.begin_s);
  }

  /** On to another sound at the same place. */
  turn(i) {
    const at_s = Math.max(context.currentTime + LEAD_S, this.voices.settled_s);
    this.voices.hear(i, at_s);
    this.note(at_s);
    this.count(i, at_s);
  }

  count(i, from_s) {
    this.heard = i;
    this.from_s = from_s;
    this.tracks[i].plays += 1;
    this.changed("play");
  }

  /** Books what was heard from `from_s` until now on the track that sounded. */
  note(until_s) {
    const track = this.tracks[this.heard], { begin_s, duration_s, loop } = this.voices;
    const seconds = Math.max(0, until_s - this.from_s), place = loop ? (this.from_s - begin_s) % duration_s : this.from_s - begin_s;
    track.played_s += seconds;
    if (loop && place + seconds > duration_s) {
      track.spans = withSpan(track.spans, seconds >= duration_s ? 0 : place, duration_s);
      track.spans = withSpan(track.spans, 0, Math.min(duration_s, place + seconds - duration_s));
    } else track.spans = withSpan(track.spans, place, Math.min(duration_s, place + seconds));
    this.from_s = until_s;
  }

  ended() {
    this.note(this.voices.begin_s + this.voices.duration_s);
    this.voices = null;
    this.changed("end");
  }

  stop() {
    if (!this.voices) return;
    const now_s = context.currentTime;
    this.note(Math.min(now_s, this.voices.loop ? now_s : this.voices.begin_s + this.voices.duration_s));
    this.voices.stop(now_s);
    this.voices = null;
    this.changed("stop");
  }

  /** Where it is, from 0 to 1. */
  place() {
    if (!this.voices) return 0;
    const t = Math.max(0, context.currentTime - this.voices.begin_s) / this.voices.duration_s;
    return this.voices.loop ? t % 1 : Math.min(1, t);
  }

  close() {
    this.closed = true;
    this.stop();
  }

  /** What is to be stored with the answer. */
  playback() {
    return this.tracks.map(({ label, digest: heard, plays, played_s }) => ({
      label, digest: heard ?? null, rate_hz: device_hz, plays, played_s: Math.round(1000 * played_s) / 1000,
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
