// The way through a study: the server says which screen comes next, the answer is kept here until the server has it.

import { announce, elsewhere, forget, keep, release, unsent } from "./keeper.js";
import { call, hurry, persist, under, uuid } from "./net.js";
import { Screen, paragraphs } from "./screen.js";
import { make } from "./widgets.js";

const by = (id) => document.getElementById(id);
const main = by("screen"), line = by("line"), status = by("status");
let shown = null;  // the screen on show, or null
let current = null;  // id of the screen the study is at, as far as this page knows
let delivering = null;  // the promise of the delivery under way
let shown_at = 0;  // when the buttons of a page of our own came, in ms

const WORDS = {
  lost: "Connection lost. Your answer is kept on this device; trying again …",
  trouble: "Not stored yet: the server has a problem. Your answer is kept on this device; trying again …",
  busy: "Many people are here at once. Your answer is kept; it is sent in a moment …",
};

function say(text, kind = "") {
  status.textContent = text;
  line.className = kind;
  by("now").hidden = kind !== "lost" && kind !== "trouble";
}

/** Tells the server what happened on the page. No matter if it does not arrive. */
function report(kind) {
  if (current) call("POST", "/api/event", { kind, screen: current }).catch(() => {});
}

const waiting = (kind) => {
  const words = WORDS[kind] ?? "";
  say(unsent() ? words : words.replace(/Your answer is kept( on this device)?; (it is sent in a moment)?/, ""), kind);
};

/** Puts a section on the page; its heading takes the focus. */
function show(element, heading, title) {
  shown?.close();
  shown = null;
  main.replaceChildren(element);
  shown_at = performance.now();
  document.title = [title ?? heading.textContent, by("study").textContent].join(" · ");
  scrollTo(0, 0);
  heading.focus({ preventScroll: true });
}

/** A page of our own: heading, sentences, buttons. */
function message(title, sentences, ...more) {
  by("study").hidden = false;
  const heading = make("h1", { tabindex: "-1" }, title);
  show(make("section", { class: "message" }, heading, make("div", { class: "text" }, ...sentences.flatMap(paragraphs)), ...more), heading);
}

function button(text, act, kind = "go") {
  const made = make("button", { type: "button", class: kind }, text);
  made.addEventListener("click", () => act(made));
  return made;
}

function about({ study, position, total, done, resume }) {
  if (study?.title) by("study").textContent = study.title;
  by("contact").hidden = !study?.contact;
  by("contact").textContent = study?.contact ? `Questions? ${study.contact}` : "";
  by("progress").hidden = !total && !done;
  const [at, all] = done ? [1, 1] : [position ?? 0, total || 1];
  by("count").textContent = done ? "Finished" : `${Math.min(at + 1, all)} of ${all}`;
  by("filled").style.width = `${Math.round((100 * at) / all)}%`;
  by("bar").setAttribute("aria-valuemax", String(all));
  by("bar").setAttribute("aria-valuenow", String(at));
  by("bar").setAttribute("aria-valuetext", by("count").textContent);
  by("elsewhere").hidden = !resume || done;
  if (resume) by("resume").value = under(resume);
}

/** Shows what the server says the study is at. */
function go(state, note = "") {
  about(state);
  say(note);
  if (state.preview) { preview(state); return; }
  if (state.done) { finish(state); return; }
  current = state.screen.id;
  announce({ screen: current });
  guard();
  by("study").hidden = !state.screen.title;  // it is the heading then
  const next = new Screen(state.screen, {
    title: state.study.title, send, decline, report, gone: () => { if (shown === next && !next.sending) refresh(); } });
  show(next.element, next.heading);
  shown = next;
}

async function refresh(note = "") {
  const reply = await persist(() => call("GET", `/api/state${location.search}`), waiting);  // says whom the address was made for
  if (reply.status === 200) go(reply.body, note);
  else refused(reply);
}

/** Keeps the answer, then sends it. */
function send(given) {
  keep({ attempt: uuid(), ...given });
  say("Saving …");
  deliver();
}

/** Ends the study for somebody who does not agree. Everything is forgotten here and there, so coming back is beginning. */
async function decline() {
  const reply = await persist(() => call("POST", "/api/decline"), waiting);
  if (reply.status !== 200 && reply.status !== 401) { await refresh(reply.body.error ?? ""); return; }
  current = null;
  forget();
  by("progress").hidden = by("elsewhere").hidden = true;
  say("");
  message("You do not take part", ["That is fine. Nothing about you is stored, only that somebody did not agree.",
    "If another site sent you here, please give back your place there. You can close this page."],
  make("p", {}, button("I have changed my mind", () => start(), "quiet")));
}

/** Sends the kept answer until the server has it or refuses it for good; however often it is called, one delivery is under way. */
function deliver() {
  delivering ??= delivery().finally(() => { delivering = null; });
  return delivering;
}

async function delivery() {
  const parcel = unsent();
  const sentElsewhere = { status: 0 };  // another tab was faster
  const attempt = async () => (parcel && unsent()?.attempt === parcel.attempt ? call("POST", "/api/answer", parcel) : sentElsewhere);
  const reply = await persist(attempt, waiting);
  if (reply.status === 200) {
    release(parcel);
    const { feedback, state, again } = reply.body;
    const note = again && !reply.tries ? "This question had been answered before; the first answer counts." : "";
    if (feedback && shown?.screen.id === parcel.screen) tellRight(feedback, state);
    else go(state, note);
  } else if (reply.status === 0) await refresh();
  else if (reply.status === 401 || reply.status === 403) refused(reply);
  else {
    release(parcel);
    if (shown?.screen.id === parcel.screen && [400, 413, 422].includes(reply.status)) {
      shown.lock(false);
      say("");
      shown.say(reply.body.error ?? "The server did not take this answer.");
    } else await refresh(reply.body.error ?? "");
  }
}

/** In teaching, the right answer is told before the next screen comes. */
function tellRight({ correct, truth_text: truth }, state) {
  say("");
  announce({ screen: state.screen?.id ?? "" });
  current = state.screen?.id ?? null;
  const heading = make("h2", { tabindex: "-1" }, correct ? "That is right." : "That is not right.");
  const right = truth ? [make("p", {}, `The right answer is: ${truth}`)] : [];
  const told = make("div", { class: `feedback ${correct ? "right" : "wrong"}` }, heading, ...right, button("Next", () => go(state)));
  shown.settle();
  shown.form.after(told);
  shown_at = performance.now();
  heading.focus();
  told.scrollIntoView({ block: "nearest" });
}

function refused({ status: code, body }) {
  if (body.study) about({ study: body.study });
  by("progress").hidden = by("elsewhere").hidden = true;
  say("");
  const again = button("Try again", () => start());
  if (code === 401) welcome();
  else if (code === 403) message("This study is closed", [body.error ?? "It takes no more answers.", "Thank you for coming."], again);
  else message("Something went wrong", [body.error ?? `The server said ${code}.`], again);
}

function welcome() {
  const again = current || unsent();
  current = null;
  const words = again
    ? ["This browser is no longer known to the study. Begin again, or open your own address if you kept it.",
      ...(unsent() ? ["The answer you gave last is kept on this device and is sent as soon as the study knows you again."] : [])]
    : ["You will hear short sounds and answer questions about them. Headphones in a quiet room are best. Nothing plays unless pressed.",
      "Every answer is stored as you give it: if you close the page, you can go on where you were."];
  message(again ? "Welcome back" : "Welcome", words, button("Begin", async (pressed) => {
    if (pressed.getAttribute("aria-disabled") === "true") return;
    pressed.setAttribute("aria-disabled", "true");
    const known = [...new URLSearchParams(location.search)].filter(([name, value]) => name.length <= 200 && value.length <= 1000);
    const parameters = Object.fromEntries(known.slice(0, 100));
    const reply = await persist(() => call("POST", "/api/begin", { parameters }), waiting);
    if (reply.status !== 200) refused(reply);
    else if (unsent()) deliver();
    else go(reply.body);
  }));
}

/** What somebody sees who looks at the study on a recruitment site, before they take part. */
function preview({ screens }) {
  current = null;
  const pages = screens.flatMap(({ title, text }) => [make("h2", {}, title), make("div", { class: "text" }, ...paragraphs(text))]);
  message("Preview", ["This is a preview: nothing is stored. To take part, accept the study where you found it."], ...pages);
}

function finish({ code, redirect }) {
  current = null;
  announce({ screen: "" });
  const parts = [];
  if (code) {
    const copied = button("Copy", async () => { await copy(code, copied); }, "quiet");
    parts.push(make("p", { class: "code" }, make("span", {}, "Your completion code"), make("code", { id: "code" }, code), copied));
  }
  const target = redirect && /^https?:\/\//i.test(redirect) ? redirect : null;
  if (target) {
    const leave = () => location.assign(target);
    const timer = setTimeout(leave, 10_000);
    const stay = button("Stay on this page", () => { clearTimeout(timer); stay.remove(); soon.remove(); }, "quiet");
    const soon = make("p", { class: "note" }, "You are taken back in ten seconds.");
    parts.push(soon, make("p", { class: "both" }, button("Go back now", leave), stay));
  }
  message("Thank you", ["You have finished. Every answer is stored.", ...(target ? [] : ["You can close this page."])], ...parts);
}

async function copy(text, pressed) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // not served over https
    const field = make("textarea", { class: "visually-hidden" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    pressed.focus();
  }
  pressed.textContent = "Copied";
  say("Copied.");
}

/** The back button stays in the study: answers that were given cannot be taken back. */
function guard() {
  if (history.state?.limen !== "here") {
    history.replaceState({ limen: "before" }, "");
    history.pushState({ limen: "here" }, "");
  }
}

/** Enter presses the button that leads on; one that comes at once was meant for what stood there before. */
document.addEventListener("keydown", (event) => {
  const buttons = main.querySelectorAll("button.go:not([type=submit])");
  if (event.key !== "Enter" || event.repeat || event.ctrlKey || event.altKey || event.metaKey || buttons.length !== 1) return;
  if (performance.now() - shown_at < 400 || event.target.closest?.("a, button, summary, input, textarea")) return;
  event.preventDefault();
  buttons[0].click();
});

addEventListener("popstate", () => {
  if (!shown) return;
  guard();
  say("Answers that were given cannot be changed. This is where the study is.");
});
addEventListener("beforeunload", (event) => { 
  if (!delivering || !unsent()) return;
  event.preventDefault();
  event.returnValue = "";  // older browsers ask for it
});
document.addEventListener("visibilitychange", () => report(document.visibilityState));
addEventListener("pageshow", (event) => { if (event.persisted) start(); });
elsewhere(({ screen }) => {
  if (delivering) hurry();  // the other tab may have delivered the same answer
  else if (current && screen !== current) refresh("The study went on in another window. This is where it is now.");
});
by("now").addEventListener("click", hurry);
by("copy").addEventListener("click", (event) => copy(by("resume").value, event.target));

/** An answer that was left unsent goes first. */
async function start() {
  if (!unsent()) return refresh();
  message("One moment", ["The answer you gave last is being sent."]);
  return deliver();
}

start();
