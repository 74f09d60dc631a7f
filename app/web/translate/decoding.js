// What every POST /attention about the shown translation has in common: the sentence and how it is decoded. The
// translation itself is not sent back, because a text may be cut into other tokens than the model wrote.

export function decoding(state, can) {
  const body = { source: state.text, model: state.model || modelOf(state) };
  if (state.forced !== null && !can.attentionPrefix) return { ...body, target: state.forced };
  if (state.forced !== null) body.prefix = state.forced;
  if (state.beam && can.decode) body.decode = { beam_size: state.beam };
  else if (state.beam && can.beam) body.beam_size = state.beam;
  return body;
}

// /attention takes a name and no languages: the first of the pair, as /translate takes it.
export function modelOf({ models, pair }) {
  return models?.find((each) => `${each.source_language}.${each.target_language}` === pair)?.name;
}
