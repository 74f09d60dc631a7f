// The forward pass as a row of cards, one step each, for one layer, head and position.

import { aborted, post } from "../shell/api.js";
import { el, fill, setText } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { original, problemOf, told } from "../shell/problem.js";
import { choice, pairName } from "../translate/choice.js";
import { isPivot, knownPair, translatorOf } from "../translate/decoding.js";
import { showExamples } from "../translate/source.js";
import { cards } from "./cards.js";

const PAUSE_MS = 300;
const SHOWN_EDITS = 3; // an edit of all norms is one for each layer

export function walkthroughRoom(store) {
  const names = {};
  const field = (key, input) => el("label", { class: "field" }, (names[key] = el("span")), input);
  const text = el("input", { id: "walked", autocomplete: "off", size: 30, oninput: () => store.set({ text: text.value, forced: null, s: -1, t: -1, card: 0 }) });
  const side = el("select", { id: "side", onchange: () => store.set({ side: side.value, card: 0 }) });
  const number = (key) => el("input", { type: "number", min: 0, max: 9999, step: 1, id: key, required: true, oninput: (event) => event.target.checkValidity() && store.set({ [key]: event.target.valueAsNumber }) });
  const numbers = { wLayer: number("wLayer"), wHead: number("wHead"), wPosition: number("wPosition") };
  const problem = el("p", { class: "problem", role: "alert" });
  const note = el("p", { class: "note" });
  const edits = el("p", { class: "note edits" });
  const examples = el("div", { class: "examples" });
  const element = el("div", { class: "room" },
    el("div", { class: "top" }, choice(store, { looksOnly: true })),
    el("div", { class: "controls" }, field("text", text), field("side", side), Object.entries(numbers).map(([key, input]) => field(key, input))),
    problem, note, edits, examples, cards(store));

  store.watch(["language"], () => {
    for (const key of Object.keys(names)) setText(names[key], t(`walk.${key}`));
    fill(side, ["encoder", "decoder"].map((each) => el("option", { value: each }, t(`walk.${each}`))));
  });
  store.watch(["text", "side", "wLayer", "wHead", "wPosition", "language"], (state) => {
    if (text.value !== state.text) text.value = state.text;
    side.value = state.side;
    for (const [key, input] of Object.entries(numbers)) {
      if (document.activeElement !== input) input.value = state[key];
    }
  });
  store.watch(["text", "examples", "language", "pair"], (state) => showExamples(store, examples, state));
  store.watch(["walked", "language"], ({ walked }) => fill(edits, walked?.edits?.length && editsOf(walked.edits)));
  store.watch(["walkProblem", "features", "text", "language", "pair", "detected", "languages", "models"], (state) => {
    const { walkProblem, features, text: sentence } = state;
    fill(problem, told(walkProblem));
    setText(note, features && !features.walkthrough ? t("missing.walkthrough") : isPivot(state) ? t("inside.pivot", { pair: pairName(knownPair(state)) }) : sentence.trim() ? "" : t("walk.empty"));
  });
  return element;
}

function editsOf(edits) {
  const more = edits.length - SHOWN_EDITS;
  const named = edits.slice(0, SHOWN_EDITS).join("; ") + (more > 0 ? `; … (+${more})` : "");
  return [t("walk.edits"), " ", original(`${named}.`, "")];
}

export function startWalking(store) {
  let running = null;
  let timer = 0;
  let asked = "";
  store.watch(["room", "models", "features", "text", "pair", "detected", "languages", "model", "side", "wLayer", "wHead", "wPosition"], (state) => {
    if (state.room !== "walkthrough" || !state.models || !state.features?.walkthrough) return;
    const body = { source: state.text, ...translatorOf(state), side: state.side, layer: state.wLayer, head: state.wHead, position: state.wPosition };
    if (JSON.stringify(body) === asked) return;
    asked = JSON.stringify(body);
    clearTimeout(timer);
    running?.abort();
    running = new AbortController();
    if (state.text.trim() && !isPivot(state)) timer = setTimeout(() => walk(store, body, running.signal), PAUSE_MS);
    else store.set({ walked: null, walkProblem: null });
  });
}

async function walk(store, body, signal) {
  try {
    const walked = await post("walkthrough", body, signal);
    if (!signal.aborted) store.set({ walked, walkProblem: null, card: Math.min(store.get().card, walked.steps.length - 1) });
  } catch (error) {
    if (!aborted(error)) store.set({ walked: null, walkProblem: problemOf(error) });
  }
}
