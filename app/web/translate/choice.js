// Languages, model and beam, from what the server has.

import { el, fill, setText } from "../shell/dom.js";
import { byName, languageName, t } from "../shell/language.js";
import { told } from "../shell/problem.js";
import { AUTO, isServed, knownPair, modelsOf, pairsOf } from "./decoding.js";

const BEAMS = [0, 1, 2, 4, 8];
const FREE = { forced: null, s: -1, t: -1, layer: -1, head: -1 };

export function pairName(pair) {
  const [source, target] = pair.split(".");
  return `${languageName(source)} → ${languageName(target)}`;
}

// looksOnly: a room that looks into one model: without detection, pairs of two models, and beams.
export function choice(store, { looksOnly = false } = {}) {
  const choosePair = (pair) => store.set({ ...FREE, pair, model: "", detected: "" });
  const from = el("select", { id: "from", onchange: () => choosePair(`${from.value}.${targetFor(served(store.get()), from.value, store.get().pair)}`) });
  const to = el("select", { id: "to", onchange: () => choosePair(`${from.value}.${to.value}`) });
  const model = el("select", { id: "model", onchange: () => store.set({ ...FREE, pair: knownPair(store.get()), model: model.value }) });
  const beam = el("select", { id: "beam", onchange: () => store.set({ ...FREE, beam: Number(beam.value) }) });
  const swap = el("button", { id: "swap", class: "link", onclick: () => swapped(store) }, "⇄");
  const names = { from: el("span"), to: el("span"), model: el("span"), beam: el("span") };
  const problem = el("p", { class: "problem", role: "alert" });
  const answers = el("p", { class: "caption", id: "answers" });
  const field = (name, select) => el("label", { class: "field" }, names[name], select);
  const [models, widths] = [field("model", model), field("beam", beam)];
  const element = el("div", { class: "controls choice" }, field("from", from), swap, field("to", to), models, !looksOnly && widths, answers, problem);
  const served = ({ languages, models: loaded }) => (looksOnly ? directOf(loaded ?? []) : languages);

  store.watch(["models", "languages", "settings", "pair", "detected", "model", "language", "beam", "problem", "view"], (state) => {
    for (const name of Object.keys(names)) names[name].textContent = t(`choice.${name}`);
    const [source = "", target = ""] = state.pair.split(".");
    const known = served(state);
    // A link may name what is not there: it stays visible, so that the API's sentence about it is understood.
    options(from, [...(looksOnly ? [] : [AUTO]), ...withChosen(known.filter(({ targets }) => targets.length).map(({ code }) => code), source)], (code) => sourceName(state, code), source);
    options(to, withChosen(targetsOf(known, source), target), languageName, target);
    const same = modelsOf(state).map(({ name }) => name);
    options(model, state.model && !same.includes(state.model) ? [...same, state.model] : same, (name) => name, state.model || same[0]);
    options(beam, BEAMS, (width) => beamName(state, width), state.beam);
    const alone = !looksOnly && state.view === "translate"; // without what only those need who look inside
    models.hidden = same.length < (alone ? 2 : 1) && !state.model;
    widths.hidden = alone;
    setText(answers, whoAnswers(state));
    const back = knownPair(state).split(".").reverse().join(".");
    swap.disabled = !back || !isServed({ languages: known }, back);
    swap.title = swap.disabled && back ? t("choice.oneway", { pair: pairName(back) }) : t("choice.swap");
    swap.setAttribute("aria-label", swap.title);
    fill(problem, state.problem?.where === "choice" ? told(state.problem) : state.models && !pairsOf(state.models).length && t("models.none"));
  });
  return element;
}

function directOf(models) {
  const pairs = pairsOf(models).map((pair) => pair.split("."));
  return [...new Set(pairs.flat())].map((code) => ({ code, targets: pairs.filter(([source]) => source === code).map(([, target]) => target) }));
}

function targetsOf(languages, source) {
  const found = languages.filter(({ code }) => source === AUTO || code === source);
  return [...new Set(found.flatMap(({ targets }) => targets))];
}

// The target stays where it can; else the languages change sides.
function targetFor(languages, source, pair) {
  const targets = targetsOf(languages, source);
  return pair.split(".").reverse().find((code) => targets.includes(code)) ?? targets[0];
}

function withChosen(codes, chosen) {
  const sorted = byName(codes);
  return !chosen || chosen === AUTO || sorted.includes(chosen) ? sorted : [...sorted, chosen];
}

function sourceName({ detected }, code) {
  if (code !== AUTO) return languageName(code);
  return detected ? t("choice.detected", { language: languageName(detected) }) : t("choice.auto");
}

function beamName({ settings }, width) {
  const usual = t("choice.usual");
  if (!width) return settings?.beamSize ? `${settings.beamSize} (${usual})` : usual;
  return width === 1 ? `1 (${t("choice.greedy")})` : String(width);
}

// Of several models of a pair: which one translates, and why that one. order: of GET /models.
export function whoAnswers(state) {
  const [first, second] = modelsOf(state);
  if (!second) return "";
  if (state.model) return t("answers.chosen", { model: state.model });
  return t(`answers.${reasonOf(first, second)}`, { model: first.name });
}

export function reasonOf(first, second) {
  return first.order === "name" && second.order === "demo" ? "own" : first.order === "named" ? "named" : "name";
}

// The translation becomes the text, where there is one.
function swapped(store) {
  const { text, target, phase, ...state } = store.get();
  const back = knownPair(state).split(".").reverse().join(".");
  const whole = target.trim() && phase !== "streaming";
  store.set({ ...FREE, pair: back, model: "", detected: "", text: whole ? target : text, hover: null });
}

function options(select, values, named, chosen) {
  fill(select, values.map((value) => el("option", { value }, named(value))));
  select.value = String(chosen ?? "");
}
