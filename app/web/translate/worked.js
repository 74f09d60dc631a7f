// One row of attention worked out: scores, mask, softmax; the numbers are the API's.

import { post } from "../shell/api.js";
import { el, fill, setText } from "../shell/dom.js";
import { figure, t } from "../shell/language.js";
import { problemOf, told } from "../shell/problem.js";
import { headQuery } from "./decoding.js";
import { axesOf, nameOf } from "./maps.js";

export function workedPanel(store) {
  const title = el("h2");
  const body = el("div");
  const element = el("section", { class: "panel wide" }, title, body);
  let running = null;

  store.watch(["answer", "kind", "layer", "head", "s", "t", "features", "language"], (state) => {
    running?.abort();
    setText(title, t("worked.title"));
    const row = rowOf(state);
    if (!state.answer || state.kind === "rollout" || state.layer < 0 || state.head < 0 || row < 0) fill(body, el("p", { class: "note" }, t("worked.choose")));
    else if (state.features) work(state, row, body, (running = new AbortController()).signal);
  });
  return element;
}

function rowOf(state) {
  return state.kind === "encoder" ? state.s : state.t;
}

async function work(state, row, body, signal) {
  const { kind, layer, head, answer } = state;
  try {
    const found = await post("attention", { ...headQuery(state), qk: { kind, layer, head, row } }, signal);
    if (signal.aborted) return;
    const axes = axesOf(answer, kind);
    fill(body, found.qk ? worked(found.qk, axes, row) : el("p", { class: "note" }, t("missing.worked")));
  } catch (error) {
    const problem = problemOf(error);
    if (problem && !signal.aborted) fill(body, el("p", { class: "problem" }, told(problem)));
  }
}

function worked({ scores, mask, softmax }, axes, row) {
  const line = (name, cells) => el("tr", {}, el("th", { scope: "row" }, name), cells.map((each) => el("td", {}, each)));
  const open = (i) => !mask || mask[i] === undefined || mask[i] === 1 || mask[i] === true;
  return [
    el("p", { class: "caption" }, t("worked.row", { token: axes.rows[row] ? nameOf(axes.rows[row]) : row })),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("worked.title") }, el("table", {},
      el("thead", {}, el("tr", {}, el("td"), softmax.map((_, i) => el("th", { scope: "col" }, axes.columns[i] ? nameOf(axes.columns[i]) : i)))),
      el("tbody", {},
        line("q·k/√d", scores.map((each) => figure(each, 3))),
        line(t("worked.mask"), softmax.map((_, i) => (open(i) ? "✓" : t("worked.closed")))),
        line("softmax", softmax.map((each) => figure(each, 4)))))),
  ];
}
