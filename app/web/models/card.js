// One model: what it does, how large, where it runs, what it scored and by which signature.

import { el } from "../shell/dom.js";
import { grouped, t } from "../shell/language.js";
import { pairName } from "../translate/choice.js";
import { pairsOf } from "../translate/decoding.js";
import { training } from "./curves.js";
import { about } from "./demo.js";

// change(name, "reload" | "unload"); use(model, example): what a click on an example of a demo does.
export function modelCard(model, served, curves, change, use) {
  const facts = {
    does: pairsOf([model]).map(pairName).join(", ") || t("models.lyrics"),
    network: `${model.architecture}, ${grouped(model.parameters)} ${t("models.parameters")}`,
    limit: `${[model.max_source_tokens, model.max_new_tokens].filter(Boolean).map(grouped).join(" → ")} ${t("models.tokens")}`,
    devices: model.devices.join(", "),
    precision: model.precision,
    reason: model.precision_reason,
    licence: model.licence,
    loaded: new Date(model.loaded_at).toLocaleString(document.documentElement.lang),
    served: served >= 0 && `${grouped(served)} ${t("models.tokens")}`,
  };
  return el("article", { class: "panel model" },
    el("h2", {}, model.name),
    model.demo && el("div", { class: "demo" }, about(model.demo, (example) => use(model, example))),
    list(Object.entries(facts).filter(([, value]) => value).map(([key, value]) => [t(`models.${key}`), value])),
    curves && training(curves),
    Object.entries(model.scores).map(([name, score]) => scores(name, score)),
    el("p", {}, ["reload", "unload"].map((verb) => el("button", { class: "link", onclick: () => change(model.name, verb) }, t(`models.${verb}`)))));
}

function list(facts) {
  return el("dl", { class: "facts" }, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function scores(name, score) {
  if (score === null || typeof score !== "object") return el("p", {}, `${name}: ${shown(score)}`);
  return el("details", {}, el("summary", {}, name, headline(score)),
    list(Object.entries(score).map(([key, value]) => [key, shown(value)])));
}

function headline(score) {
  const first = ["bleu", "nats_per_character", "nats_per_token"].find((key) => typeof score[key] === "number");
  return first ? `: ${first === "bleu" ? "BLEU" : first} ${score[first]}` : "";
}

function shown(value) {
  if (typeof value === "number") return grouped(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}
