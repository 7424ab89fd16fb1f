// Requests, and patience: what fails for want of a connection is tried again.

const IMPATIENT = "limen-now";
const PATIENCE_S = 30;

/** An address of the server, which may stand under a path of its host: "/api/state" is "/study/api/state" then. */
export const under = (path) => new URL(`.${path}`, location.href).href;

/** One request -> {status, body, wait_s}. Throws when nothing came back that this server could have said. */
export async function call(method, path, body) {
  const stop = new AbortController(), timer = setTimeout(() => stop.abort(), 1000 * PATIENCE_S);
  try {
    const reply = await fetch(under(path), {
      method, signal: stop.signal, cache: "no-store", credentials: "same-origin",
      headers: { Accept: "application/json", "X-Limen": "1", ...(body && { "Content-Type": "application/json" }) },
      body: body && JSON.stringify(body),
    });
    const said = await reply.json().catch((error) => { if (reply.ok) throw error; return {}; });
    return { status: reply.status, body: said, wait_s: waitOf(reply) };
  } finally {
    clearTimeout(timer);
  }
}

/** Seconds of a Retry-After header, at most five minutes; null without one. */
export function waitOf(reply) {
  const said = reply.headers.get("Retry-After");
  if (!said) return null;
  const seconds = /^\d+$/.test(said.trim()) ? Number(said) : (Date.parse(said) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.min(300, Math.max(1, seconds)) : null;
}

/** Answers that will not be another one when asked again. */
export const settled = (reply) => reply.status < 500 && ![408, 425, 429].includes(reply.status);

/** Asks until the answer is settled. `tell` is given "lost" (no connection), "trouble" (the server's) or "busy" (asked to wait) and how
 * many seconds it takes until the next try, and "" at the end. */
export async function persist(request, tell) {
  for (let tries = 0; ; tries++) {
    const reply = await request().catch(() => null);
    if (reply && settled(reply)) {
      tell("");
      return { ...reply, tries };
    }
    const wait_s = reply?.wait_s ?? Math.min(PATIENCE_S, 2 ** tries) * (0.75 + 0.5 * Math.random());
    tell(!reply ? "lost" : reply.status === 429 ? "busy" : "trouble", wait_s);
    await rest(wait_s, reply?.status !== 429);
  }
}

/** Waits; less when the connection comes back or the listener wants it now. */
export function rest(seconds, hasty = true) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      for (const [kind, at] of [["online", window], [IMPATIENT, document]]) at.removeEventListener(kind, end);
      done();
    };
    const timer = setTimeout(end, 1000 * seconds);
    if (hasty) for (const [kind, at] of [["online", window], [IMPATIENT, document]]) at.addEventListener(kind, end);
  });
}

export const hurry = () => document.dispatchEvent(new Event(IMPATIENT));

/** A random identifier; crypto.randomUUID exists under https only. */
export function uuid() {
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = (b[6] & 15) | 64;
  b[8] = (b[8] & 63) | 128;
  const hex = Array.from(b, (v) => v.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
