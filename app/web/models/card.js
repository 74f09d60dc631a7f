// One model: what it does, how large, where it runs, what it scored and by which signature.

import { el } from "../shell/dom.js";
import { grouped, languageName, t } from "../shell/language.js";

// change(name, "reload" | "unload")
export function modelCard(model, served, change) {
  const what = model.source_language ? `${languageName(model.source_language)} → ${languageName(model.target_language)}` : t("models.lyrics");
  const facts = [
    [t("models.does"), what],
    [t("models.network"), `${model.architecture}, ${grouped(model.parameters)} ${t("models.parameters")}`],
    [t("models.vocabulary"), `${grouped(model.vocabulary)} ${t("models.tokens")}`],
    [t("models.limit"), limit(model)],
    [t("models.devices"), model.devices.join(", ") || t("models.nowhere")],
    [t("models.precision"), model.precision],
    [t("models.version"), String(model.version)],
    [t("models.licence"), model.licence],
    [t("models.served"), served === undefined ? null : `${grouped(served)} ${t("models.tokens")}`],
  ].filter(([, value]) => value);
  return el("article", { class: "panel model" },
    el("h2", {}, model.name),
    el("dl", { class: "facts" }, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    Object.entries(model.scores ?? {}).map(([name, score]) => scores(name, score)),
    el("p", {}, ["reload", "unload"].map((verb) => el("button", { type: "button", class: "link", onclick: () => change(model.name, verb) }, t(`models.${verb}`)))));
}

function limit({ max_source_tokens: source, max_new_tokens: written }) {
  return source ? t("models.reads", { source: grouped(source), written: grouped(written) }) : t("models.writes", { written: grouped(written) });
}

function scores(name, score) {
  if (score === null || typeof score !== "object") return el("p", {}, `${name}: ${shown(score)}`);
  return el("details", {}, el("summary", {}, name, headline(score)),
    el("dl", { class: "facts" }, Object.entries(score).map(([key, value]) => [el("dt", {}, key), el("dd", {}, shown(value))])));
}

function headline(score) {
  const first = ["bleu", "nats_per_character", "nats_per_token"].find((key) => typeof score[key] === "number");
  return first ? `: ${first === "bleu" ? "BLEU" : first} ${score[first]}` : "";
}

function shown(value) {
  if (typeof value === "number") return grouped(value);
  return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
}
