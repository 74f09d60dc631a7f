// The look inside a translation: POST /attention, and what of its answer the panels share.

import { post } from "../shell/api.js";
import { decoding } from "./decoding.js";
import { readMaps } from "./maps.js";

// One request for all that is shown; where that is too large, the kind that is looked at, then one layer.
export async function inspect(store, state, can, signal) {
  const body = inspection(state, can);
  const smaller = [{}, { kinds: [state.kind === "rollout" ? "cross" : state.kind] }, { kinds: ["cross"], layers: [-1] }];
  let note = null;
  for (const [attempt, change] of smaller.entries()) {
    try {
      const answer = await post("attention", { ...body, ...change }, signal);
      store.set(shown(store.get(), answer, note));
      return;
    } catch (error) {
      const tooLarge = error.status === 422 && ["layers", "kinds"].includes(error.field);
      if (!tooLarge || attempt === smaller.length - 1) throw error;
      note = error.message;
    }
  }
}

function inspection(state, can) {
  const body = { ...decoding(state), kinds: ["cross", "encoder", "decoder"], layers: "all", heads: "all" };
  if (can.stats) body.include = ["alignment", "rollout", "stats", "steps"];
  if (can.steps && can.stats) body.top_k = 6;
  if (can.encoding) body.encoding = "u16";
  return body;
}

function shown(state, answer, note) {
  const { s, t, kind, layer, head } = state;
  const maps = readMaps(answer);
  const map = maps[kind] ?? maps.cross;
  return {
    phase: "done",
    answer,
    maps,
    note,
    kind: maps[kind] ? kind : "cross",
    layer: map?.layers.includes(layer) ? layer : -1,
    head: map?.heads.includes(head) ? head : -1,
    s: s < answer.source.tokens.length ? s : -1,
    t: t < answer.target.output_tokens.length ? t : -1,
  };
}
