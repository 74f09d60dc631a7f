// Language pair, model and beam, from what is loaded.

import { el, fill } from "../shell/dom.js";
import { languageName, t } from "../shell/language.js";
import { pairsOf } from "./decoding.js";

const BEAMS = [0, 1, 2, 4, 8];

export function pairName(pair) {
  const [source, target] = pair.split(".");
  return `${languageName(source)} → ${languageName(target)}`;
}

// beams: false in rooms that do not search.
export function choice(store, { beams = true } = {}) {
  const free = { forced: null, s: -1, t: -1, layer: -1, head: -1 };
  const pair = el("select", { id: "pair", onchange: () => store.set({ ...free, pair: pair.value, model: "" }) });
  const model = el("select", { id: "model", onchange: () => store.set({ ...free, model: model.value }) });
  const beam = el("select", { id: "beam", onchange: () => store.set({ ...free, beam: Number(beam.value) }) });
  const swap = el("button", { id: "swap", class: "link", onclick: () => swapped(store) }, "⇄");
  const names = { pair: el("span"), model: el("span"), beam: el("span") };
  const problem = el("p", { class: "problem", role: "alert" });
  const field = (name, select) => el("label", { class: "field" }, names[name], select);
  const [models, widths] = [field("model", model), field("beam", beam)];
  const element = el("div", { class: "controls" }, field("pair", pair), swap, models, beams && widths, problem);

  store.watch(["models", "pair", "model", "language", "beam", "problem", "view"], (state) => {
    for (const name of Object.keys(names)) names[name].textContent = t(`choice.${name}`);
    const loaded = state.models ?? [];
    const pairs = pairsOf(loaded);
    const same = loaded.filter((each) => pairsOf([each]).includes(state.pair));
    // A link may name what is not loaded: it stays visible, so that the API's sentence about it is understood.
    options(pair, pairs.includes(state.pair) || !state.pair ? pairs : [...pairs, state.pair], pairName, state.pair);
    const known = same.map((each) => each.name);
    options(model, state.model && !known.includes(state.model) ? [...known, state.model] : known, (name) => name, state.model || known[0]);
    options(beam, BEAMS, (width) => (width ? String(width) : t("choice.usual")), state.beam);
    const alone = beams && state.view === "translate"; // without what only those need who look inside
    models.hidden = alone && same.length < 2 && !state.model;
    widths.hidden = alone;
    const [source, target] = state.pair.split(".");
    swap.disabled = !pairs.includes(`${target}.${source}`);
    swap.title = swap.disabled && target ? t("choice.oneway", { pair: pairName(`${target}.${source}`) }) : t("choice.swap");
    swap.setAttribute("aria-label", swap.title);
    fill(problem, state.problem?.where === "choice" ? state.problem.sentence : state.models && !pairs.length && t("models.none"));
  });
  return element;
}

// The translation becomes the text, where there is one.
function swapped(store) {
  const { pair, text, target, phase } = store.get();
  const back = pair.split(".").reverse().join(".");
  const whole = target.trim() && phase !== "streaming";
  store.set({ pair: back, model: "", text: whole ? target : text, forced: null, s: -1, t: -1, layer: -1, head: -1, hover: null });
}

function options(select, values, named, chosen) {
  fill(select, values.map((value) => el("option", { value }, named(value))));
  select.value = String(chosen ?? "");
}
