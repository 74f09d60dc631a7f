// The chosen head: how spread its weights are, what it does, and what the model says without it.

import { post } from "../shell/api.js";
import { el, fill, setText } from "../shell/dom.js";
import { figure, signed, t } from "../shell/language.js";
import { problemOf, told } from "../shell/problem.js";
import { headName } from "./alignment.js";
import { headQuery } from "./decoding.js";
import { activeHead } from "./selection.js";

export function headPanel(store) {
  const title = el("h2");
  const about = el("div");
  const without = el("div", { class: "without" });
  const element = el("section", { class: "panel" }, title, about, without);
  let running = null;
  let asked = "";

  store.watch(["answer", "kind", "layer", "head", "hoverHead", "language"], (state) => {
    const { layer, head } = activeHead(state);
    setText(title, `${t("head.title")} · ${headName(layer, head)}`);
    if (!state.answer) fill(about, el("p", { class: "note" }, t("head.empty")));
    else if (layer < 0 || head < 0) fill(about, el("p", { class: "note" }, t("head.choose")));
    else fill(about, statistics(state, layer, head));
  });

  // Only a locked head is taken away: that is a request, and a hover is not.
  store.watch(["answer", "kind", "layer", "head", "features", "language"], (state) => {
    const one = state.answer && state.layer >= 0 && state.head >= 0 && state.kind !== "rollout";
    const wanted = one ? `${state.kind} ${state.layer} ${state.head} ${state.language}` : "";
    if (wanted === asked && without.source === state.answer) return;
    asked = wanted;
    without.source = state.answer;
    running?.abort();
    fill(without);
    if (!one) return;
    if (!state.features?.ablation) fill(without, el("p", { class: "note" }, t("missing.ablation")));
    else takeAway(store, state, without, (running = new AbortController()).signal);
  });
  return element;
}

function statistics(state, layer, head) {
  const stats = state.answer.stats?.[state.kind]?.[layer]?.[head]; // of all layers and heads, also where maps are of a few
  if (!stats) return el("p", { class: "note" }, t("missing.stats"));
  const rows = [
    [t("head.role"), stats.role ? t(`role.${stats.role}`) : null],
    [t("head.entropy"), known(stats.entropy_mean, (value) => `${figure(value)} ${t("unit.nats")}`)],
    [t("head.spread"), known(stats.entropy_norm, (value) => figure(value))],
    [t("head.confidence"), known(stats.confidence, (value) => figure(value))],
  ].filter(([, value]) => value !== null);
  return el("dl", { class: "facts" }, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function known(value, shown) {
  return value === undefined || value === null ? null : shown(value);
}

async function takeAway(store, state, element, signal) {
  const { kind, layer, head, answer } = state;
  fill(element, el("p", { class: "note" }, t("head.asking")));
  try {
    const found = await post("attention", { ...headQuery(state), mask_heads: [{ kind, layer, head }] }, signal);
    if (!signal.aborted) fill(element, ablated(found.ablation, answer));
  } catch (error) {
    const problem = problemOf(error);
    if (problem && !signal.aborted) fill(element, el("p", { class: "problem" }, told(problem)));
  }
}

function ablated(ablation, answer) {
  if (!ablation) return el("p", { class: "note" }, t("missing.ablation"));
  const change = ablation.logprob_sum_after - ablation.logprob_sum_before;
  const same = ablation.text_after === answer.target.text;
  return [
    el("p", { class: "caption" }, t("head.without")),
    el("p", { class: "reading" }, same ? t("head.same") : `“${ablation.text_after ?? ""}”`),
    el("p", {}, t("head.change", { change: signed(change), before: figure(ablation.logprob_sum_before), after: figure(ablation.logprob_sum_after) })),
  ];
}
