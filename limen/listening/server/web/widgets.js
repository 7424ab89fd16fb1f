// The three kinds of controls: choose one of several, a slider, free text. Text of a study is inserted as text, never as markup.

/** make("p", {class: "note", hidden: true}, "text", child) */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, ""); else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A control is {widget, sound, element, value(), missing(), restore(value), focus()}. value() is undefined while there is no answer;
 * missing() describes what is still to be done, or is "". `sound` is the label of the sound it belongs to, if every sound has its own. */
export function control(widget, id, changed, sound = null) {
  return { widget, sound, ...{ choose, slide, type }[widget.kind](widget, id, changed, sound) };
}

const questionText = (widget, sound) => `${widget.question}${sound ? ` (${sound})` : ""}`;
const optional = (widget) => (widget.required ? [] : [make("span", { class: "optional" }, " (optional)")]);
const unanswered = (widget, sound) => (widget.required ? `answer “${questionText(widget, sound)}”` : "");
// half a surrogate pair and NUL cannot be stored
const clean = (text) => text.replace(/[\ud800-\udfff]/gu, "").replaceAll("\0", "");

function choose(widget, id, changed, sound) {
  const options = [...widget.choices, ...(widget.other ? [{ value: "other:", label: widget.other }] : [])];
  const widest = Math.max(...options.map((o) => o.label.length));
  const inputs = options.map((option, i) => make("input", { type: "radio", name: id, id: `${id}-${i}`, value: option.value }));
  const typed = make("input", { type: "text", class: "typed", maxlength: widget.longest, autocomplete: "off", spellcheck: "false",
    hidden: true, "aria-label": `${widget.other}: ${questionText(widget, sound)}` });
  const key = (i) => (i < 9 && options.length > 1 ? [make("kbd", { "aria-hidden": "true" }, String(i + 1))] : []);
  const choices = options.map((option, i) => make("label", { class: "choice", for: `${id}-${i}` },
    inputs[i], make("span", {}, option.label), ...key(i)));
  const clear = make("button", { type: "button", class: "quiet", hidden: true }, "Clear my choice");
  const element = make("fieldset", { class: "widget choose", role: "radiogroup", "aria-required": String(widget.required),
    "aria-labelledby": `${id}-q` },
    make("legend", { id: `${id}-q` }, questionText(widget, sound), ...optional(widget)),
    make("div", { class: `choices${widest > 24 ? " long" : options.length < 5 ? " few" : ""}` }, ...choices), typed, clear);
  element.querySelector(".choices").style.setProperty("--widest", `${widest}ch`);

  const chosen = () => inputs.find((input) => input.checked);
  const free = () => chosen()?.value === "other:";
  const typedText = () => clean(typed.value).trim();
  const show = () => {
    typed.hidden = !free();
    clear.hidden = widget.required || !chosen();
    changed();
  };
  const pick = (i) => { inputs[i].checked = true; show(); if (!typed.hidden) typed.focus(); };
  inputs.forEach((input) => input.addEventListener("change", show));
  inputs[inputs.length - 1]?.addEventListener("click", () => { if (!typed.hidden) typed.focus(); });
  typed.addEventListener("input", changed);
  clear.addEventListener("click", () => { inputs.forEach((input) => { input.checked = false; }); inputs[0].focus(); show(); });
  return {
    element,
    value: () => (!free() ? chosen()?.value : typedText() ? `other:${typedText()}` : undefined),
    missing: () => (!chosen() ? unanswered(widget, sound) : free() && !typedText() ? `write what you mean by “${widget.other}”` : ""),
    restore: (value) => {
      const other = value.startsWith("other:") && widget.other, input = inputs.find((i) => i.value === (other ? "other:" : value));
      if (!input) return;
      input.checked = true;
      if (other) typed.value = value.slice("other:".length);
      show();
    },
    focus: () => (typed.hidden ? chosen() ?? inputs[0] : typed).focus(),
    /** Chooses by number, counted from 1; returns whether there is such a choice. */
    digit: options.length > 1 && ((n) => n >= 1 && n <= Math.min(9, inputs.length) && (pick(n - 1), true)),
  };
}

/** The labels of a scale: at its ends, at its points, or each over an equal part. */
export function scale(widget) {
  const points = Math.round((widget.high - widget.low) / widget.step) + 1;
  const kind = widget.anchors.length < 3 || widget.anchors.length === points ? "points" : "bands";
  return make("div", { class: `anchors ${kind}`, "aria-hidden": "true" }, ...widget.anchors.map((word) => make("span", {}, word)));
}

function slide(widget, id, changed, sound) {
  const { low, high, step, anchors } = widget;
  const middle = low + step * Math.round((high - low) / step / 2);
  const input = make("input", { type: "range", id, min: low, max: high, step, value: middle, class: "untouched",
    "aria-valuetext": "not rated yet" });
  const number = make("output", { for: id, class: "number", "aria-hidden": "true" }, "–");
  const ends = `From ${low}, ${anchors[0]}, to ${high}, ${anchors[anchors.length - 1]}`;
  const words = anchors.length > 1 ? make("p", { id: `${id}-d`, class: "visually-hidden" }, ends) : "";
  if (words) input.setAttribute("aria-describedby", `${id}-d`);
  let touched = false;
  const anchor = () => {
    const share = (input.value - low) / (high - low);
    return anchors.length < 3 ? "" : `, ${anchors[Math.min(anchors.length - 1, Math.floor(share * anchors.length))]}`;
  };
  const touch = () => {
    touched = true;
    input.classList.remove("untouched");
    number.textContent = input.value;
    input.setAttribute("aria-valuetext", `${input.value}${anchor()}`);
    input.style.setProperty("--share", String((input.value - low) / (high - low)));
    changed();
  };
  input.addEventListener("input", touch);
  input.addEventListener("click", touch);  // its initial position is an answer, too
  input.addEventListener("keydown", (event) => { if (event.key === " ") { event.preventDefault(); touch(); } });
  if (sound) input.setAttribute("aria-label", questionText(widget, sound));
  const track = make("div", { class: "track" }, input, ...(sound ? [] : [scale(widget)]));
  const label = sound ? [] : [make("label", { for: id }, widget.question, ...optional(widget))];
  return {
    element: make("div", { class: "widget slide" }, ...label, track, number, words),
    value: () => (touched ? Number(input.value) : undefined),
    missing: () => (touched || !widget.required ? "" : `move the slider of “${questionText(widget, sound)}”, or click it where it is`),
    restore: (value) => { input.value = value; touch(); },
    focus: () => input.focus(),
  };
}

function type(widget, id, changed, sound) {
  const size = widget.longest > 100 ? { rows: widget.longest > 400 ? 4 : 2 } : { type: "text", size: Math.max(8, widget.longest) };
  // no spell checking: listeners should type what they heard
  const input = make(size.rows ? "textarea" : "input", { id, ...size, maxlength: widget.longest, spellcheck: "false", autocomplete: "off",
    autocapitalize: "off", autocorrect: "off", "aria-required": String(widget.required) });
  const remaining = make("p", { class: "note", hidden: true });
  input.addEventListener("input", () => {
    const left = widget.longest - input.value.length;
    remaining.hidden = left > Math.min(100, widget.longest / 4);
    remaining.textContent = `${left} characters left`;
    changed();
  });
  return {
    element: make("div", { class: "widget type" }, make("label", { for: id }, questionText(widget, sound), ...optional(widget)), input, remaining),
    value: () => clean(input.value).trim() || undefined,
    missing: () => (clean(input.value).trim() ? "" : unanswered(widget, sound)),
    restore: (value) => { input.value = value; changed(); },
    focus: () => input.focus(),
  };
}
