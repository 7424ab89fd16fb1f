// What must survive a reload: the answer that is not acknowledged yet, and the state of the current screen.

const FOLDER = location.pathname === "/" ? "" : location.pathname;  // studies under paths of one host share a storage
const UNSENT = `limen.unsent${FOLDER}`, DRAFT = `limen.draft${FOLDER}`, SCREEN = `limen.screen${FOLDER}`;
const memory = new Map();  // if storage is forbidden, a page still works until it is closed

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

/** A preference of the listener, or null. */
export const loadSetting = (name) => read(`limen.${name}`);
export const saveSetting = (name, value) => write(`limen.${name}`, value);

/** The answer that is waiting to be acknowledged, or null. */
export const unsentAnswer = () => read(UNSENT);

/** Stores an answer before it is sent. The first answer to a screen stays: a second click, or another tab, sends the same one again. */
export function keepAnswer(answer) {
  const kept = unsentAnswer();
  if (kept?.screen === answer.screen) return;
  write(UNSENT, answer);
}

/** Removes an answer that the server has stored or has refused for good. */
export function releaseAnswer(answer) {
  if (unsentAnswer()?.attempt === answer.attempt) {
    write(UNSENT, null);
    write(DRAFT, null);
  }
}

/** Removes everything about this listener. */
export function clearAll() {
  for (const name of [UNSENT, DRAFT, SCREEN]) write(name, null);
}

/** What was done on a screen before a reload: {values, sounds, spent_ms}. */
export function loadDraft(screen) {
  const kept = read(DRAFT);
  return kept?.screen === screen ? kept : { screen, values: {}, sounds: {}, spent_ms: 0 };
}

export const saveDraft = (draft) => write(DRAFT, draft);

/** Tells other tabs which screen is the current one. */
export const announceScreen = (screen) => write(SCREEN, { screen });

/** Calls back when another tab has announced a screen. */
export function onScreenElsewhere(callback) {
  addEventListener("storage", (event) => {
    if (event.key === SCREEN && event.newValue) callback(JSON.parse(event.newValue).screen);
  });
}
