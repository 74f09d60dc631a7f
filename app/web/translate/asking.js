// From what is typed to what is shown. The request of an older text is aborted.

import { aborted, features, post } from "../shell/api.js";
import { problemOf } from "../shell/problem.js";
import { stream } from "../shell/stream.js";
import { decoding } from "./decoding.js";
import { readMaps } from "./maps.js";

const PAUSE_MS = 300;
const EMPTY = { phase: "idle", target: "", answer: null, maps: {}, problem: null, note: null };

export function startAsking(store) {
  let running = null;
  let timer = 0;
  let asked = "";
  store.watch(["room", "models", "text", "pair", "model", "beam", "forced"], (state, keys) => {
    if (state.room !== "translate" || !state.models) return;
    const wanted = JSON.stringify([state.text, state.pair, state.model, state.beam, state.forced]);
    if (wanted === asked) return;
    asked = wanted;
    clearTimeout(timer);
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    if (!state.text.trim()) store.set(EMPTY);
    else timer = setTimeout(() => answerTo(store, signal), keys.has("text") && !keys.has("models") ? PAUSE_MS : 0);
  });
}

async function answerTo(store, signal) {
  const state = store.get();
  store.set({ phase: "streaming", target: state.forced ?? "", problem: null, note: null, hover: null, timing: null });
  try {
    await translated(store, state, signal);
    if (signal.aborted) return;
    store.set({ phase: "inspecting" });
    await inspect(store, state, await features(), signal);
  } catch (error) {
    if (aborted(error) || signal.aborted) return;
    store.set({ phase: "failed", problem: problemOf(error, causeOf(error, store.get().phase)), answer: null, maps: {} });
  }
}

// Beside what it is shown: the languages and the model, the text, or the maps.
function causeOf({ field, code }, phase) {
  if (code === "text_too_long") return "text";
  if (phase === "inspecting") return "maps";
  return ["source", "target", "model"].includes(field) ? "choice" : "text";
}

// The translation, streamed; from a forced beginning on where there is one.
async function translated(store, state, signal) {
  const [source, target] = state.pair.split(".");
  const body = { q: state.text, source, target, model: state.model || undefined };
  if (state.forced !== null) body.prefix = state.forced;
  if (state.beam) body.beam_size = state.beam;
  let text = "";
  await stream("translate", body, signal, (name, data) => {
    text = name === "done" ? data.translatedText : text + data.text;
    store.set({ target: text, timing: data.timing ?? null });
  });
}

// One request for all that is shown; where that is too large, the kind that is looked at, then one layer.
async function inspect(store, state, can, signal) {
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
    target: answer.target.text,
    kind: maps[kind] ? kind : "cross",
    layer: map?.layers.includes(layer) ? layer : -1,
    head: map?.heads.includes(head) ? head : -1,
    s: s < answer.source.tokens.length ? s : -1,
    t: t < answer.target.output_tokens.length ? t : -1,
  };
}
