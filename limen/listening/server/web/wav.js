// Decoder for 16-bit WAV files: the page plays exactly the samples that the server sent, independently of the browser's decoder.

import { sha256 } from "./sha256.js";

/** ArrayBuffer -> {rate_hz, channels: [Float32Array], pcm: Uint8Array}; throws an Error that describes what is wrong with the file. */
export function parse(file) {
  const view = new DataView(file), word = (at) => String.fromCharCode(...new Uint8Array(file, at, 4));
  if (file.byteLength < 12 || word(0) !== "RIFF" || word(8) !== "WAVE") throw new Error("Not a WAV file.");
  let format = null;
  for (let at = 12; at + 8 <= file.byteLength;) {
    const name = word(at), size = view.getUint32(at + 4, true), body = at + 8;
    if (name === "fmt ") {
      if (body + 16 > file.byteLength) break;
      const short = (offset) => view.getUint16(body + offset, true);
      format = { code: short(0), channels: short(2), rate_hz: view.getUint32(body + 4, true), bits: short(14) };
      if (format.code !== 1 || format.bits !== 16 || ![1, 2].includes(format.channels))
        throw new Error(`Expected 16-bit PCM, got ${format.bits} bits, ${format.channels} channels, format ${format.code}.`);
    } else if (name === "data" && format) {
      if (body + size > file.byteLength) throw new Error("This WAV file ends too early.");
      const frames = Math.floor(size / 2 / format.channels);
      if (!frames) throw new Error("This WAV file contains no samples.");
      const channels = Array.from({ length: format.channels }, () => new Float32Array(frames));
      channels.forEach((samples, c) => {
        for (let t = 0; t < frames; t++) samples[t] = view.getInt16(body + 2 * (t * format.channels + c), true) / 32768;
      });
      return { rate_hz: format.rate_hz, channels, pcm: new Uint8Array(file, body, size) };
    }
    at = body + size + (size & 1);
  }
  throw new Error("This WAV file contains no samples.");
}

/** SHA-256 of the samples as received, in hex: part of the proof of playback. */
export async function digest(pcm) {
  const bytes = globalThis.crypto?.subtle ? new Uint8Array(await crypto.subtle.digest("SHA-256", pcm)) : sha256(pcm);
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

/** An AudioBuffer at the rate of the file. */
export function toBuffer({ rate_hz, channels }) {
  const buffer = new AudioBuffer({ length: channels[0].length, numberOfChannels: channels.length, sampleRate: rate_hz });
  channels.forEach((samples, c) => buffer.copyToChannel(samples, c));
  return buffer;
}
