// What every POST /attention about the shown translation has in common: the sentence and how it is decoded. The
// translation itself is not sent back, because a text may be cut into other tokens than the model wrote.

import { get } from "../shell/api.js";

export const AUTO = "auto"; // the source language is detected

export function decoding(state) {
  const body = { source: state.text, ...translatorOf(state) };
  if (state.forced !== null) body.prefix = state.forced;
  if (state.beam) body.decode = { beam_size: state.beam };
  return body;
}

// The same about the chosen head alone.
export function headQuery(state) {
  return { ...decoding(state), kinds: [state.kind], layers: [state.layer], heads: [state.head] };
}

export function pairsOf(models) {
  return [...new Set(models.flatMap((each) => each.language_pairs.map(({ source, target }) => `${source}.${target}`)))];
}

// The chosen pair, with the language that the text was found to be in; "" while that is not known.
export function knownPair({ pair, detected }) {
  const [source, target] = pair.split(".");
  if (source !== AUTO) return pair;
  return detected ? `${detected}.${target}` : "";
}

// What the server translates: its models and its languages.
export function offered() {
  return Promise.all([get("models"), get("languages")]);
}

// Whether a text of these languages is translated, by one model or by two in turn; languages: of GET /languages.
export function isServed({ languages }, pair) {
  const [source, target] = pair.split(".");
  return languages.some(({ code, targets }) => (source === AUTO || code === source) && targets.includes(target));
}

// Two models in turn translate the pair: there is no single one to look into.
export function isPivot(state) {
  const pair = knownPair(state);
  return Boolean(pair) && isServed(state, pair) && !pairsOf(state.models ?? []).includes(pair);
}

export function modelsOf({ models, ...state }) {
  const pair = knownPair(state);
  return (models ?? []).filter((each) => pairsOf([each]).includes(pair));
}

// /attention takes a name and no pair: the first of the pair, as /translate takes it; and of a multilingual model its
// target language. Without either the server detects the source language.
export function translatorOf(state) {
  const { models, pair, model } = state;
  const found = model ? models?.find((each) => each.name === model) : modelsOf(state)[0];
  const body = { model: model || found?.name };
  return !found || found.language_pairs.length > 1 ? { ...body, target_language: pair.split(".")[1] } : body;
}
