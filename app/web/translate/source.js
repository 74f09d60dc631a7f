// The text to translate. A mirror of the same text lies behind the field and carries the marks.

import { el, fill, setText } from "../shell/dom.js";
import { grouped, t } from "../shell/language.js";
import { told } from "../shell/problem.js";
import { examplesOf } from "./examples.js";
import { unknownWords } from "./notices.js";
import { isLong } from "./parts.js";
import { active } from "./selection.js";
import { mark, pieces } from "./tokens.js";

// tools: further buttons below the field.
export function sourcePane(store, tools = []) {
  const mirror = el("div", { class: "mirror", "aria-hidden": "true" });
  const field = el("textarea", { id: "source", rows: "3", spellcheck: "false", autocomplete: "off", "aria-describedby": "count unknown-words" });
  const label = el("label", { for: "source", class: "caption" });
  const problem = el("p", { class: "problem", role: "alert" });
  const examples = el("div", { class: "examples" });
  const count = el("span", { class: "caption", id: "count" });
  const clear = el("button", { class: "link", id: "clear", onclick: () => {
    store.set({ text: "", forced: null, s: -1, t: -1, hover: null });
    field.focus();
  } });
  const element = el("section", { class: "pane" }, label, el("div", { class: "editor" }, mirror, field),
    el("div", { class: "tools below" }, count, clear, tools), problem, examples);

  field.addEventListener("input", () => store.set({ text: field.value, forced: null, s: -1, t: -1, hover: null }));
  field.addEventListener("scroll", () => { mirror.scrollTop = field.scrollTop; });

  store.watch(["text"], ({ text }) => {
    if (field.value !== text) field.value = text;
  });
  store.watch(["text", "answer", "notices"], (state) => {
    fill(mirror, marks(state));
    mirror.append("\n");
    mirror.scrollTop = field.scrollTop;
  });
  store.watch(["answer", "hover", "s", "t", "text", "notices"], (state) => {
    mark(mirror.querySelectorAll("[data-index]"), active(state).s, state.s, new Set());
  });
  store.watch(["problem", "text", "language"], (state) => showProblem(store, problem, state));
  store.watch(["text", "examples", "language", "pair"], (state) => showExamples(store, examples, state));
  store.watch(["text", "settings", "language"], (state) => {
    setText(count, counted(state));
    setText(clear, t("translate.clear"));
    clear.hidden = !state.text;
  });
  store.watch(["pair", "language"], () => {
    label.textContent = t("translate.source");
    field.placeholder = t("translate.placeholder");
  });
  return element;
}

// The text with its tokens, where they are known, and with the words that the model does not know.
function marks(state) {
  const { text, answer } = state;
  const unknown = unknownWords(state);
  const current = answer?.source.text === text;
  if (!current && !unknown.length) return [document.createTextNode(text)];
  let end = 0;
  return pieces(text, current ? answer.source.tokens : unknown).map((piece) => {
    const start = end;
    end += Array.from(piece.text).length;
    const inside = piece.index >= 0 && unknown.find((word) => word.start < end && word.end > start);
    if (piece.index < 0) return document.createTextNode(piece.text);
    return el("span", { "data-index": current ? piece.index : undefined, "data-start": inside ? inside.start : undefined, class: inside ? "unknown" : undefined }, piece.text);
  });
}

function counted({ text, settings }) {
  const count = Array.from(text).length;
  if (!count || !settings) return "";
  const values = { count: grouped(count), limit: grouped(settings.charLimit) };
  if (count > settings.charLimit) return t("translate.over", values);
  return t(isLong(text) ? "translate.parts" : "translate.count", values);
}

// Beside its cause, with the part that would fit where the text is too long.
function showProblem(store, element, { problem, text }) {
  if (problem?.where !== "text") return fill(element);
  const fitting = part(problem, text);
  const keep = () => store.set({ text: fitting, forced: null });
  return fill(element, told(problem), fitting && el("button", { class: "link", onclick: keep }, t("problem.fit", { characters: Array.from(fitting).length })));
}

// Nobody counts tokens here: by the ratio of the two numbers in the API's sentence, a tenth less, at the end of a word.
function part(problem, text) {
  const numbers = (problem.sentence?.match(/\d[\d,]*/g) ?? []).map((each) => Number(each.replaceAll(",", "")));
  if (problem.code !== "text_too_long" || numbers.length < 2 || numbers[1] >= numbers[0]) return null;
  const characters = Array.from(text);
  const start = characters.slice(0, Math.floor((0.9 * characters.length * numbers[1]) / numbers[0])).join("");
  return start.replace(/\s+\S*$/u, "");
}

export function showExamples(store, element, { text, pair, examples }) {
  const known = examplesOf(examples, pair);
  if (text.trim() || !known.length) return fill(element);
  return fill(element, el("span", { class: "caption" }, t("translate.try")), known.map((each) =>
    el("button", { class: "example", onclick: () => store.set({ text: each, forced: null }) }, each)));
}
