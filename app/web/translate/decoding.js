// What every POST /attention about the shown translation has in common: the sentence and how it is decoded. The
// translation itself is not sent back, because a text may be cut into other tokens than the model wrote.

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

// /attention takes a name and no pair: the first of the pair, as /translate takes it; and of a multilingual model its
// target language.
export function translatorOf({ models, pair, model }) {
  const found = models?.find((each) => (model ? each.name === model : pairsOf([each]).includes(pair)));
  const body = { model: model || found?.name };
  return found?.language_pairs.length > 1 ? { ...body, target_language: pair.split(".")[1] } : body;
}
