// The text to translate. A mirror of the same text lies behind the field and carries the marks.

import { el, fill } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { active } from "./selection.js";
import { mark, pieces } from "./tokens.js";

export function sourcePane(store) {
  const mirror = el("div", { class: "mirror", "aria-hidden": "true" });
  const field = el("textarea", { id: "source", rows: "3", spellcheck: "false", autocomplete: "off" });
  const label = el("label", { for: "source", class: "caption" });
  const problem = el("p", { class: "problem", role: "alert" });
  const examples = el("div", { class: "examples" });
  const element = el("section", { class: "pane" }, label, el("div", { class: "editor" }, mirror, field), problem, examples);

  field.addEventListener("input", () => store.set({ text: field.value, forced: null, s: -1, t: -1, hover: null }));
  field.addEventListener("scroll", () => { mirror.scrollTop = field.scrollTop; });

  store.watch(["text"], ({ text }) => {
    if (field.value !== text) field.value = text;
  });
  store.watch(["text", "answer"], ({ text, answer }) => {
    const current = answer?.source.text === text;
    const parts = current ? pieces(text, answer.source.tokens) : [{ text, index: -1 }];
    fill(mirror, parts.map((part) => (part.index < 0 ? document.createTextNode(part.text) : el("span", { "data-index": part.index }, part.text))));
    mirror.append("\n");
  });
  store.watch(["answer", "hover", "s", "t", "text"], (state) => {
    mark(mirror.querySelectorAll("span"), active(state).s, state.s, new Set());
  });
  store.watch(["problem", "text", "language"], (state) => showProblem(store, problem, state));
  store.watch(["text", "examples", "language", "pair"], (state) => showExamples(store, examples, state));
  store.watch(["pair", "language"], () => {
    label.textContent = t("translate.source");
    field.placeholder = t("translate.placeholder");
  });
  return element;
}

// Beside its cause, with the part that would fit where the text is too long.
function showProblem(store, element, { problem, text }) {
  if (problem?.where !== "text") return fill(element);
  const fitting = part(problem, text);
  const keep = () => store.set({ text: fitting, forced: null });
  return fill(element, problem.sentence, fitting && el("button", { class: "link", onclick: keep }, t("problem.fit", { characters: Array.from(fitting).length })));
}

// Nobody counts tokens here: by the ratio of the two numbers in the API's sentence, a tenth less, at the end of a word.
function part(problem, text) {
  const numbers = (problem.sentence.match(/\d[\d,]*/g) ?? []).map((each) => Number(each.replaceAll(",", "")));
  if (problem.code !== "text_too_long" || numbers.length < 2 || numbers[1] >= numbers[0]) return null;
  const characters = Array.from(text);
  const start = characters.slice(0, Math.floor((0.9 * characters.length * numbers[1]) / numbers[0])).join("");
  return start.replace(/\s+\S*$/u, "");
}

export function showExamples(store, element, { text, pair, examples }) {
  const known = examples?.[pair] ?? [];
  if (text.trim() || !known.length) return fill(element);
  return fill(element, el("span", { class: "caption" }, t("translate.try")), known.map((each) =>
    el("button", { class: "example", onclick: () => store.set({ text: each, forced: null }) }, each)));
}
