// What the model might have written instead, at the chosen step. One click forces it and goes on from there.

import { el, fill, setText } from "../shell/dom.js";
import { figure, t } from "../shell/language.js";
import { bar } from "../drawing/ribbons.js";
import { nameOf } from "./maps.js";
import { active } from "./selection.js";

export function stepsPanel(store) {
  const title = el("h2");
  const body = el("div");
  const element = el("section", { class: "panel choices" }, title, body);
  store.watch(["answer", "hover", "t", "features", "language"], (state) => {
    setText(title, t("steps.title"));
    const step = active(state).t;
    if (!state.answer) fill(body, el("p", { class: "note" }, t("steps.empty")));
    else if (!state.answer.steps) fill(body, el("p", { class: "note" }, t("missing.steps")));
    else if (step < 0 || !state.answer.steps[step]) fill(body, summary(state.answer.steps), el("p", { class: "note" }, t("steps.choose")));
    else fill(body, alternatives(store, state, step));
  });
  return element;
}

// The whole translation as one line of bars, so that the least certain step is seen at once.
function summary(steps) {
  const sum = steps.reduce((total, step) => total + step.logprob, 0);
  return el("p", { class: "caption" }, t("steps.sum", { nats: figure(sum), steps: steps.length }));
}

function alternatives(store, state, index) {
  const step = state.answer.steps[index];
  const written = state.answer.target.output_tokens[index];
  const probability = Math.exp(step.logprob);
  const head = el("p", { class: "reading" }, t("steps.step", {
    step: index, word: nameOf(written), p: figure(probability, 3), logprob: figure(step.logprob), rank: step.rank ?? "–", entropy: figure(step.entropy_nats),
  }));
  // The end of a sentence is no text that a translation could go on from.
  const { input_tokens: read, output_tokens: wrote } = state.answer.target;
  const special = new Set([...read, ...wrote].filter((token) => token.special).map((token) => token.id));
  const rows = step.top.map((each) => {
    const chosen = each.id === written.id;
    const forcible = !chosen && !special.has(each.id) && (each.text ?? "").trim();
    const label = `${shownText(each)} ${figure(Math.exp(each.logprob), 3)}`;
    return el("li", {}, el("button", {
      class: chosen ? "alternative chosen" : "alternative",
      disabled: !forcible,
      title: forcible ? t("steps.force") : undefined,
      onclick: () => store.set({ forced: prefix(state.answer, index, each), t: -1, s: -1, hover: null }),
    }, bar(Math.exp(each.logprob), label)));
  });
  return [head, el("ol", { class: "alternatives" }, rows), el("p", { class: "caption" }, t("steps.hint"))];
}

function shownText(each) {
  return (each.text ?? "").trim() || each.piece || "␣";
}

// All that was written before this step, and the alternative in place of what was.
export function prefix(answer, index, alternative) {
  const { text, output_tokens: tokens } = answer.target;
  const before = tokens.slice(0, index).filter((token) => token.end !== null);
  const kept = Array.from(text).slice(0, before.at(-1)?.end ?? 0).join("");
  const piece = alternative.piece ?? tokens[index].piece;
  const word = (alternative.text ?? "").trim();
  return kept && piece.startsWith("▁") ? `${kept} ${word}` : `${kept}${kept ? (alternative.text ?? "") : word}`;
}
