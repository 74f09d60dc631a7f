// The translation, as it comes; when it is done its words are the tokens that can be chosen.

import { el, fill } from "../shell/dom.js";
import { figure, t } from "../shell/language.js";
import { active, hover, linksOf, lock } from "./selection.js";
import { mark, pieces } from "./tokens.js";

export function targetPane(store) {
  const label = el("p", { class: "caption" });
  const text = el("p", { class: "output", id: "target", "aria-live": "polite" });
  const below = el("p", { class: "caption" });
  const element = el("section", { class: "pane" }, label, text, below);

  store.watch(["target", "answer", "phase"], ({ target, answer, phase }) => {
    const ready = answer && phase === "done" && answer.target.text === target;
    text.classList.toggle("streaming", phase === "streaming");
    fill(text, ready ? words(store, answer) : document.createTextNode(target));
  });
  store.watch(["answer", "phase", "target", "hover", "s", "t"], (state) => {
    const linked = new Set((linksOf(state.answer ?? { source: {}, target: {} }) ?? [])
      .filter((link) => link.s === active(state).s).map((link) => link.t));
    mark(text.querySelectorAll("[data-index]"), active(state).t, state.t, linked);
  });
  store.watch(["phase", "forced", "timing", "language"], (state) => {
    label.textContent = t("translate.target");
    fill(below, status(store, state));
  });
  return element;
}

function words(store, answer) {
  return pieces(answer.target.text, answer.target.output_tokens).map(({ text, index }) => (index < 0 ? document.createTextNode(text) : el("span", {
    class: "word",
    "data-index": index,
    onpointerenter: () => hover(store, { t: index }),
    onpointerleave: () => hover(store, {}),
    onclick: () => lock(store, { s: store.get().s, t: index }),
  }, text)));
}

function status(store, { forced, phase, timing }) {
  const parts = [];
  if (phase === "done" && timing?.total_ms) parts.push(t("translate.took", { ms: figure(timing.total_ms, 0) }));
  if (forced === null) return parts;
  const free = () => store.set({ forced: null, t: -1 });
  parts.push(el("span", {}, ` ${t("forced.begins", { text: forced })} `));
  parts.push(el("button", { class: "link", onclick: free }, t("forced.free")));
  return parts;
}
