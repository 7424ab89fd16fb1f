// SHA-256 (FIPS 180-4), for pages served without https, where crypto.subtle is missing.

const primes = [];
for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
const fraction = (x) => Math.floor((x - Math.floor(x)) * 2 ** 32);
const K = Uint32Array.from(primes, (p) => fraction(Math.cbrt(p)));
const H = Uint32Array.from(primes.slice(0, 8), (p) => fraction(Math.sqrt(p)));

/** The digest, 32 bytes, of a Uint8Array. */
export function sha256(bytes) {
  const length = (Math.floor((bytes.length + 8) / 64) + 1) * 64;
  const padded = new Uint8Array(length);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(length - 4, (bytes.length * 8) >>> 0);

  const hash = H.slice(), w = new Uint32Array(64), rotate = (x, n) => (x >>> n) | (x << (32 - n));
  for (let start = 0; start < length; start += 64) {
    for (let t = 0; t < 16; t++) w[t] = view.getUint32(start + 4 * t);
    for (let t = 16; t < 64; t++) {
      const s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ (w[t - 15] >>> 3);
      const s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ (w[t - 2] >>> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let t = 0; t < 64; t++) {
      const t1 = (h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t]) | 0;
      const t2 = ((rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((value, i) => { hash[i] += value; });
  }
  const out = new DataView(new ArrayBuffer(32));
  hash.forEach((value, i) => out.setUint32(4 * i, value));
  return new Uint8Array(out.buffer);
}
