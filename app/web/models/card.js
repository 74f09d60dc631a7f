// One model: what it does, how large, where it runs, what it scored and by which signature.

import { el } from "../shell/dom.js";
import { grouped, phrased, t } from "../shell/language.js";
import { original } from "../shell/problem.js";
import { pairName, reasonOf } from "../translate/choice.js";
import { pairsOf } from "../translate/decoding.js";
import { training } from "./curves.js";
import { about } from "./demo.js";

// models: all of them. change(name, "reload" | "unload"), where the reader may; use(model, example): what a click on an example of a demo does.
export function modelCard(model, models, served, curves, change, use) {
  const facts = {
    does: pairsOf([model]).map(pairName).join(", ") || t("models.lyrics"),
    network: `${model.architecture}, ${grouped(model.parameters)} ${t("models.parameters")}`,
    limit: `${[model.max_source_tokens, model.max_new_tokens].filter(Boolean).map(grouped).join(" → ")} ${t("models.tokens")}`,
    devices: model.devices.join(", "),
    answers: answersFor(model, models),
    precision: model.precision?.replace("native", t("models.native")),
    reason: model.precision_reason && reasonText(model.precision_reason),
    licence: model.licence,
    loaded: new Date(model.loaded_at).toLocaleString(document.documentElement.lang),
    served: served >= 0 && `${grouped(served)} ${t("models.tokens")}`,
  };
  return el("article", { class: "panel model" },
    el("h2", {}, model.name),
    model.demo && el("div", { class: "demo" }, about(model, (example) => use(model, example))),
    list(Object.entries(facts).filter(([, value]) => value).map(([key, value]) => [t(`models.${key}`), value])),
    curves && training(curves),
    Object.entries(model.scores).map(([name, score]) => scores(name, score)),
    change && el("p", {}, ["reload", "unload"].map((verb) => el("button", { class: "link", onclick: () => change(model.name, verb) }, t(`models.${verb}`)))));
}

// Of pairs that several models have: whether requests that name no model get this one, and why.
function answersFor(model, models) {
  return pairsOf([model]).flatMap((pair) => {
    const [first, second] = models.filter((each) => pairsOf([each]).includes(pair));
    if (!second) return [];
    if (first !== model) return [t("answers.other", { pair: pairName(pair), model: first.name })];
    return [`${pairName(pair)}: ${t(`answers.${reasonOf(first, second)}`, { model: first.name })}`];
  }).join(" ");
}

function reasonText(reason) {
  const text = phrased(reason);
  return /\b[a-z]{2,} [a-z]{2,}\b/.test(text) ? original(reason, t("problem.other")) : text; // it has words yet that are not known
}

function list(facts) {
  return el("dl", { class: "facts" }, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function scores(name, score) {
  if (score === null || typeof score !== "object") return el("p", {}, `${phrased(name)}: ${shown(score)}`);
  return el("details", {}, el("summary", {}, phrased(name), headline(score)),
    list(Object.entries(score).map(([key, value]) => [t(`score.${key}`).replace(/^score\./, ""), shown(value)])));
}

function headline(score) {
  const first = ["bleu", "nats_per_character", "nats_per_token"].find((key) => typeof score[key] === "number");
  return first ? `: ${first === "bleu" ? "BLEU" : t(`score.${first}`)} ${score[first]}` : "";
}

function shown(value) {
  if (typeof value === "number") return grouped(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}
