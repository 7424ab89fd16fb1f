// A listener's way through a study: the server decides which screen comes next; an answer is kept here until the server has stored it.

import { announceScreen, clearAll, keepAnswer, onScreenElsewhere, releaseAnswer, unsentAnswer } from "./storage.js";
import { request, requestUntilFinal, retryNow, serverUrl, uuid } from "./net.js";
import { Screen, paragraphs } from "./screen.js";
import { make } from "./widgets.js";

const GUARD_MS = 400;  // an Enter within this time after a page appeared was meant for the previous one
const byId = (id) => document.getElementById(id);
const main = byId("screen"), statusLine = byId("line"), statusText = byId("status");
let shown = null;  // the Screen that is displayed, or null
let current = null;  // id of the study's current screen, as far as this page knows
let delivery = null;  // the promise of a delivery in progress
let shown_at = 0;  // when the displayed page appeared, in ms

const CONNECTION_MESSAGES = {
  lost: ["Connection lost.", "Your answer is kept on this device.", "Trying again …"],
  trouble: ["Not stored yet: the server has a problem.", "Your answer is kept on this device.", "Trying again …"],
  busy: ["Many people are taking part right now.", "Your answer is kept and will be sent in a moment …", ""],
};

function showStatus(text, kind = "") {
  statusText.textContent = text;
  statusLine.className = kind;
  byId("now").hidden = kind !== "lost" && kind !== "trouble";
}

/** Reports an event on the page to the server, without retries. */
function reportEvent(kind) {
  if (current) request("POST", "/api/event", { kind, screen: current }).catch(() => {});
}

function showConnection(kind) {
  const [problem, kept, next] = CONNECTION_MESSAGES[kind] ?? ["", "", ""];
  showStatus([problem, unsentAnswer() ? kept : "", next].filter(Boolean).join(" "), kind);
}

/** Puts a section on the page; its heading gets the focus. */
function show(element, heading, title) {
  shown?.close();
  shown = null;
  main.replaceChildren(element);
  shown_at = performance.now();
  document.title = [title ?? heading.textContent, byId("study").textContent].join(" · ");
  scrollTo(0, 0);
  heading.focus({ preventScroll: true });
}

/** Shows a page that is no screen of the study: heading, sentences, buttons. */
function showMessage(title, sentences, ...more) {
  byId("study").hidden = false;
  const heading = make("h1", { tabindex: "-1" }, title);
  show(make("section", { class: "message" }, heading, make("div", { class: "text" }, ...sentences.flatMap(paragraphs)), ...more), heading);
}

function button(text, act, kind = "go") {
  const element = make("button", { type: "button", class: kind }, text);
  element.addEventListener("click", () => act(element));
  return element;
}

/** Fills the header and the footer. */
function showProgress({ study, position, total, done, resume }) {
  if (study?.title) byId("study").textContent = study.title;
  byId("contact").hidden = !study?.contact;
  byId("contact").textContent = study?.contact ? `Questions? ${study.contact}` : "";
  byId("progress").hidden = !total && !done;
  const [at, all] = done ? [1, 1] : [position ?? 0, total || 1];
  byId("count").textContent = done ? "Finished" : `${Math.min(at + 1, all)} of ${all}`;
  byId("filled").style.width = `${Math.round((100 * at) / all)}%`;
  byId("bar").setAttribute("aria-valuemax", String(all));
  byId("bar").setAttribute("aria-valuenow", String(at));
  byId("bar").setAttribute("aria-valuetext", byId("count").textContent);
  byId("elsewhere").hidden = !resume || done;
  if (resume) byId("resume").value = serverUrl(resume);
}

/** Shows the state that the server returned. */
function showState(state, note = "") {
  showProgress(state);
  showStatus(note);
  if (state.preview) { showPreview(state); return; }
  if (state.done) { showEnd(state); return; }
  current = state.screen.id;
  announceScreen(current);
  holdBackButton();
  byId("study").hidden = !state.screen.title;  // without a title of the screen it is the heading
  const next = new Screen(state.screen, { title: state.study.title, send, decline, reportEvent,
    soundsGone: () => { if (shown === next && !next.sending) refresh(); } });
  show(next.element, next.heading);
  shown = next;
}

async function refresh(note = "") {
  // the page's parameters may name another person than the browser's cookie
  const reply = await requestUntilFinal(() => request("GET", `/api/state${location.search}`), showConnection);
  if (reply.status === 200) showState(reply.body, note);
  else showError(reply);
}

/** Keeps the answer, then sends it. */
function send(answer) {
  keepAnswer({ attempt: uuid(), ...answer });
  showStatus("Saving …");
  deliver();
}

/** Ends the study for a listener who does not agree. The browser and the server forget everything, so returning means beginning. */
async function decline() {
  const reply = await requestUntilFinal(() => request("POST", "/api/decline"), showConnection);
  if (reply.status !== 200 && reply.status !== 401) { await refresh(reply.body.error ?? ""); return; }
  current = null;
  clearAll();
  byId("progress").hidden = byId("elsewhere").hidden = true;
  showStatus("");
  showMessage("You are not taking part", ["That is fine. No data about you is stored; only the number of people who declined goes up by one.",
    "If a recruitment site sent you here, please return your submission there. You can close this page."],
  make("p", {}, button("I have changed my mind", () => start(), "quiet")));
}

/** Sends the kept answer until the server stores it or refuses it for good. Further calls join a delivery in progress. */
function deliver() {
  delivery ??= deliverOnce().finally(() => { delivery = null; });
  return delivery;
}

async function deliverOnce() {
  const answer = unsentAnswer();
  const SENT_BY_OTHER_TAB = { status: 0 };
  const attempt = async () => (answer && unsentAnswer()?.attempt === answer.attempt ? request("POST", "/api/answer", answer) : SENT_BY_OTHER_TAB);
  const reply = await requestUntilFinal(attempt, showConnection);
  if (reply.status === 200) {
    releaseAnswer(answer);
    const { feedback, state, again } = reply.body;
    const note = again && !reply.tries ? "This question was already answered; the first answer counts." : "";
    if (feedback && shown?.screen.id === answer.screen) showFeedback(feedback, state);
    else showState(state, note);
  } else if (reply.status === 0) await refresh();
  else if (reply.status === 401 || reply.status === 403) showError(reply);
  else {
    releaseAnswer(answer);
    if (shown?.screen.id === answer.screen && [400, 413, 422].includes(reply.status)) {
      shown.lock(false);
      showStatus("");
      shown.showProblem(reply.body.error ?? "The server did not accept this answer.");
    } else await refresh(reply.body.error ?? "");
  }
}

/** In training screens, shows the correct answer before the next screen. */
function showFeedback({ correct, truth_text: truth }, state) {
  showStatus("");
  announceScreen(state.screen?.id ?? "");
  current = state.screen?.id ?? null;
  const heading = make("h2", { tabindex: "-1" }, correct ? "Correct." : "Not correct.");
  const answer = truth ? [make("p", {}, `The correct answer is: ${truth}`)] : [];
  const feedback = make("div", { class: `feedback ${correct ? "right" : "wrong"}` }, heading, ...answer, button("Next", () => showState(state)));
  shown.freeze();
  shown.form.after(feedback);
  shown_at = performance.now();
  heading.focus();
  feedback.scrollIntoView({ block: "nearest" });
}

function showError({ status, body }) {
  if (body.study) showProgress({ study: body.study });
  byId("progress").hidden = byId("elsewhere").hidden = true;
  showStatus("");
  const again = button("Try again", () => start());
  if (status === 401) showWelcome();
  else if (status === 403) showMessage("This study is closed", [body.error ?? "It accepts no more answers.", "Thank you for your interest."], again);
  else showMessage("Something went wrong", [body.error ?? `The server replied with status ${status}.`], again);
}

function showWelcome() {
  const again = current || unsentAnswer();
  current = null;
  const text = again
    ? ["This browser is no longer known to the study. Begin again, or open your personal address if you saved it.",
      ...(unsentAnswer() ? ["Your last answer is kept on this device and will be sent once the study knows you again."] : [])]
    : ["You will hear short sounds and answer questions about them. Headphones in a quiet room work best. Sounds play only when you press them.",
      "Each answer is stored as soon as you give it: if you close the page, you can continue later where you stopped."];
  showMessage(again ? "Welcome back" : "Welcome", text, button("Begin", async (pressed) => {
    if (pressed.getAttribute("aria-disabled") === "true") return;
    pressed.setAttribute("aria-disabled", "true");
    const accepted = [...new URLSearchParams(location.search)].filter(([name, value]) => name.length <= 200 && value.length <= 1000);
    const parameters = Object.fromEntries(accepted.slice(0, 100));
    const reply = await requestUntilFinal(() => request("POST", "/api/begin", { parameters }), showConnection);
    if (reply.status !== 200) showError(reply);
    else if (unsentAnswer()) deliver();
    else showState(reply.body);
  }));
}

/** Shows the first pages to a person who previews the study on a recruitment site. */
function showPreview({ screens }) {
  current = null;
  const pages = screens.flatMap(({ title, text }) => [make("h2", {}, title), make("div", { class: "text" }, ...paragraphs(text))]);
  showMessage("Preview", ["This is a preview: nothing is stored. To take part, accept the study on the site where you found it."], ...pages);
}

function showEnd({ code, redirect }) {
  current = null;
  announceScreen("");
  const parts = [];
  if (code) {
    const copyButton = button("Copy", async () => { await copy(code, copyButton); }, "quiet");
    parts.push(make("p", { class: "code" }, make("span", {}, "Your completion code"), make("code", { id: "code" }, code), copyButton));
  }
  const target = redirect && /^https?:\/\//i.test(redirect) ? redirect : null;
  if (target) {
    const leave = () => location.assign(target);
    const timer = setTimeout(leave, 10_000);
    const stay = button("Stay on this page", () => { clearTimeout(timer); stay.remove(); notice.remove(); }, "quiet");
    const notice = make("p", { class: "note" }, "You will be taken back in ten seconds.");
    parts.push(notice, make("p", { class: "both" }, button("Go back now", leave), stay));
  }
  showMessage("Thank you", ["You have finished. All your answers are stored.", ...(target ? [] : ["You can close this page."])], ...parts);
}

async function copy(text, pressed) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // not available without https
    const field = make("textarea", { class: "visually-hidden" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    pressed.focus();
  }
  pressed.textContent = "Copied";
  showStatus("Copied.");
}

/** Keeps the back button within the study, because stored answers cannot be changed. */
function holdBackButton() {
  if (history.state?.limen !== "here") {
    history.replaceState({ limen: "before" }, "");
    history.pushState({ limen: "here" }, "");
  }
}

/** Enter presses the only button that leads on, but not directly after the page appeared. */
document.addEventListener("keydown", (event) => {
  const buttons = main.querySelectorAll("button.go:not([type=submit])");
  if (event.key !== "Enter" || event.repeat || event.ctrlKey || event.altKey || event.metaKey || buttons.length !== 1) return;
  if (performance.now() - shown_at < GUARD_MS || event.target.closest?.("a, button, summary, input, textarea")) return;
  event.preventDefault();
  buttons[0].click();
});

addEventListener("popstate", () => {
  if (!shown) return;
  holdBackButton();
  showStatus("Stored answers cannot be changed. This is the current screen.");
});
addEventListener("beforeunload", (event) => {
  if (!delivery || !unsentAnswer()) return;
  event.preventDefault();
  event.returnValue = "";  // older browsers need it
});
document.addEventListener("visibilitychange", () => reportEvent(document.visibilityState));
addEventListener("pageshow", (event) => { if (event.persisted) start(); });
onScreenElsewhere((screen) => {
  if (delivery) retryNow();  // the other tab may have delivered the same answer
  else if (current && screen !== current) refresh("The study continued in another window. This is the current screen.");
});
byId("now").addEventListener("click", retryNow);
byId("copy").addEventListener("click", (event) => copy(byId("resume").value, event.target));

/** An answer that was not acknowledged is sent first. */
async function start() {
  if (!unsentAnswer()) return refresh();
  showMessage("One moment", ["Your last answer is being sent."]);
  return deliver();
}

start();
