// HTTP requests that are repeated after connection failures and server errors.

const RETRY_NOW = "limen-retry-now";
const TIMEOUT_S = 30;

/** An address of the server, which may be served under a path of its host: "/api/state" is "/study/api/state" then. */
export const serverUrl = (path) => new URL(`.${path}`, location.href).href;

/** One request -> {status, body, wait_s}. Throws if there was no reply, or none that this server could have sent. */
export async function request(method, path, body) {
  const stop = new AbortController(), timer = setTimeout(() => stop.abort(), 1000 * TIMEOUT_S);
  try {
    const reply = await fetch(serverUrl(path), {
      method, signal: stop.signal, cache: "no-store", credentials: "same-origin",
      headers: { Accept: "application/json", "X-Limen": "1", ...(body && { "Content-Type": "application/json" }) },
      body: body && JSON.stringify(body),
    });
    const content = await reply.json().catch((error) => { if (reply.ok) throw error; return {}; });
    return { status: reply.status, body: content, wait_s: retryAfter(reply) };
  } finally {
    clearTimeout(timer);
  }
}

/** Seconds of a Retry-After header, at most five minutes; null without one. */
export function retryAfter(reply) {
  const header = reply.headers.get("Retry-After");
  if (!header) return null;
  const seconds = /^\d+$/.test(header.trim()) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.min(300, Math.max(1, seconds)) : null;
}

/** Whether repeating the request would give the same reply. */
const isFinal = (reply) => reply.status < 500 && ![408, 425, 429].includes(reply.status);

/** Repeats a request until its reply is final. `report` is called with "lost" (no connection), "trouble" (server error) or "busy" (asked to
 * wait) and the seconds until the next try, and with "" at the end. */
export async function requestUntilFinal(send, report) {
  for (let tries = 0; ; tries++) {
    const reply = await send().catch(() => null);
    if (reply && isFinal(reply)) {
      report("");
      return { ...reply, tries };
    }
    const wait_s = reply?.wait_s ?? Math.min(TIMEOUT_S, 2 ** tries) * (0.75 + 0.5 * Math.random());
    report(!reply ? "lost" : reply.status === 429 ? "busy" : "trouble", wait_s);
    await wait(wait_s, reply?.status !== 429);
  }
}

/** Waits; unless `interruptible` is false, a restored connection or `retryNow` ends it early. */
export function wait(seconds, interruptible = true) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      for (const [kind, target] of [["online", window], [RETRY_NOW, document]]) target.removeEventListener(kind, end);
      done();
    };
    const timer = setTimeout(end, 1000 * seconds);
    if (interruptible) for (const [kind, target] of [["online", window], [RETRY_NOW, document]]) target.addEventListener(kind, end);
  });
}

export const retryNow = () => document.dispatchEvent(new Event(RETRY_NOW));

/** A random identifier; crypto.randomUUID exists under https only. */
export function uuid() {
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = (b[6] & 15) | 64;
  b[8] = (b[8] & 63) | 128;
  const hex = Array.from(b, (v) => v.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
