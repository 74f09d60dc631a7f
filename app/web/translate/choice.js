// Language pair, model and beam, from what is loaded.

import { el, fill } from "../shell/dom.js";
import { languageName, t } from "../shell/language.js";
import { pairsOf } from "./decoding.js";

const BEAMS = [0, 1, 2, 4, 8];

export function pairName(pair) {
  const [source, target] = pair.split(".");
  return `${languageName(source)} → ${languageName(target)}`;
}

export function choice(store, { beams = true } = {}) {
  const free = { forced: null, s: -1, t: -1, layer: -1, head: -1 };
  const pair = el("select", { id: "pair", onchange: () => store.set({ ...free, pair: pair.value, model: "" }) });
  const model = el("select", { id: "model", onchange: () => store.set({ ...free, model: model.value }) });
  const beam = el("select", { id: "beam", onchange: () => store.set({ ...free, beam: Number(beam.value) }) });
  const names = { pair: el("span"), model: el("span"), beam: el("span") };
  const problem = el("p", { class: "problem", role: "alert" });
  const field = (name, select) => el("label", { class: "field" }, names[name], select);
  const element = el("div", { class: "controls" }, field("pair", pair), field("model", model), beams && field("beam", beam), problem);

  store.watch(["models", "pair", "model", "language", "beam", "problem"], (state) => {
    for (const name of Object.keys(names)) names[name].textContent = t(`choice.${name}`);
    const models = state.models ?? [];
    const pairs = pairsOf(models);
    const same = models.filter((each) => pairsOf([each]).includes(state.pair));
    // A link may name what is not loaded: it stays visible, so that the API's sentence about it is understood.
    options(pair, pairs.includes(state.pair) || !state.pair ? pairs : [...pairs, state.pair], pairName, state.pair);
    const known = same.map((each) => each.name);
    options(model, state.model && !known.includes(state.model) ? [...known, state.model] : known, (name) => name, state.model || known[0]);
    options(beam, BEAMS, (width) => (width ? String(width) : t("choice.usual")), state.beam);
    fill(problem, state.problem?.where === "choice" ? state.problem.sentence : state.models && !pairs.length && t("models.none"));
  });
  return element;
}

function options(select, values, named, chosen) {
  fill(select, values.map((value) => el("option", { value }, named(value))));
  select.value = String(chosen ?? "");
}
