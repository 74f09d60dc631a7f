// One selection: a source token s, a target token t and a head. A hover goes before what is locked.

export const NONE = { s: -1, t: -1, k: -1 };

export function active(state) {
  return state.hover ?? { s: state.s, t: state.t, k: -1 };
}

export function activeHead(state) {
  return state.hoverHead ?? { layer: state.layer, head: state.head };
}

export function hover(store, { s = -1, t = -1, k = -1 }) {
  const old = store.get().hover;
  if (s < 0 && t < 0 && k < 0) store.set({ hover: null });
  else if (!old || old.s !== s || old.t !== t || old.k !== k) store.set({ hover: { s, t, k } });
}

// A second click on the same frees it.
export function lock(store, { s = -1, t = -1 }) {
  const state = store.get();
  const same = state.s === s && state.t === t;
  store.set(same ? { s: -1, t: -1 } : { s, t });
}

export function lockHead(store, layer, head) {
  const state = store.get();
  const same = state.layer === layer && state.head === head;
  store.set({ hoverHead: null, layer: same ? -1 : layer, head: same ? -1 : head });
}

// One Escape frees the tokens, the next one the head.
export function free(store) {
  const { s, t, hover: held, hoverHead } = store.get();
  if (s >= 0 || t >= 0 || held || hoverHead) store.set({ s: -1, t: -1, hover: null, hoverHead: null });
  else store.set({ layer: -1, head: -1 });
}

// The links that the ribbons show: [{s, t, weight}], as the API aligned tokens, or words made of them.
export function linksOf(answer) {
  const { alignment, source, target } = answer;
  if (!alignment?.links) return null;
  if (alignment.unit !== "word") return alignment.links.map(([s, t, weight]) => ({ s, t, weight: weight ?? 1 }));
  const parts = (tokens, word) => tokens.flatMap((token, i) => (token.word === word ? [i] : []));
  return alignment.links.flatMap(([from, to, weight]) =>
    parts(source.tokens, from).flatMap((s) => parts(target.output_tokens, to).map((t) => ({ s, t, weight: weight ?? 1 }))));
}
