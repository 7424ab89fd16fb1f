// What must outlive a reload: the answer that is not acknowledged yet, and what was done on the present screen.

const HERE = location.pathname === "/" ? "" : location.pathname;  // studies under paths of one host share a storage
const UNSENT = `limen.unsent${HERE}`, DRAFT = `limen.draft${HERE}`, AT = `limen.at${HERE}`;
const memory = new Map();  // where storage is forbidden, a page still works until it is closed

function read(name) {
  try {
    return JSON.parse(localStorage.getItem(name) ?? "null") ?? memory.get(name) ?? null;
  } catch {
    return memory.get(name) ?? null;
  }
}

function write(name, value) {
  if (value === null) memory.delete(name); else memory.set(name, value);
  try {
    if (value === null) localStorage.removeItem(name); else localStorage.setItem(name, JSON.stringify(value));
  } catch { /* kept in memory */ }
}

/** What a listener set on the page, or null. */
export const recall = (name) => read(`limen.${name}`);
export const remember = (name, value) => write(`limen.${name}`, value);

/** The answer that waits to be acknowledged, or null. */
export const unsent = () => read(UNSENT);

/** Keeps an answer before it is sent. The first one of a screen stays: a second press, or another tab, sends the same again. */
export function keep(parcel) {
  const kept = unsent();
  if (kept?.screen === parcel.screen) return kept;
  write(UNSENT, parcel);
  return parcel;
}

/** The server has it, or has refused it for good. */
export function release(parcel) {
  if (unsent()?.attempt === parcel.attempt) {
    write(UNSENT, null);
    write(DRAFT, null);
  }
}

/** Nothing of this listener stays. */
export function forget() {
  for (const name of [UNSENT, DRAFT, AT]) write(name, null);
}

/** What was done on a screen before a reload: {values, sounds, spent_ms}. */
export function draft(screen) {
  const kept = read(DRAFT);
  return kept?.screen === screen ? kept : { screen, values: {}, sounds: {}, spent_ms: 0 };
}

export const saveDraft = (made) => write(DRAFT, made);

/** Tells other tabs where the study is now. */
export const announce = (where) => write(AT, where);

/** Calls back when another tab has moved on to a screen that is not the one shown here. */
export function elsewhere(moved) {
  addEventListener("storage", (event) => { if (event.key === AT && event.newValue) moved(JSON.parse(event.newValue)); });
}
