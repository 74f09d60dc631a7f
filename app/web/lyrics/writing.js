// A text that is written while one looks on, and that stops when one says so.

import { aborted, features, post } from "../shell/api.js";
import { problemOf } from "../shell/problem.js";
import { stream } from "../shell/stream.js";
import { readTrace } from "./trace.js";

let running = null;

export function writerOf({ writer, models }) {
  return writer || models?.find((each) => each.kind === "lyrics")?.name || "";
}

export async function write(store) {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  const state = store.get();
  const { prompt, temperature, topK, seed, length } = state;
  store.set({ writing: true, written: "", chances: [], wrote: prompt, trace: null, gates: null, finish: "", lyricsProblem: null, at: -1, unit: -1 });
  const body = { prompt, temperature, top_k: topK, max_new_tokens: length, logprobs: true, model: writerOf(state) || undefined };
  if (/^\d+$/.test(seed)) body.seed = Number(seed);
  try {
    await stream("generate", body, signal, (name, data) => {
      const { written, chances } = store.get();
      if (name === "token") store.set({ written: written + data.text, chances: [...chances, ...chancesOf(data.tokens ?? [])] });
      else if (name === "done") store.set({ written: data.text, finish: data.finish_reason, seed: String(data.seed) });
    });
  } catch (error) {
    if (!aborted(error)) store.set({ lyricsProblem: problemOf(error) });
    if (aborted(error) && running?.signal !== signal) return; // another text is being written already
    if (aborted(error)) store.set({ finish: "stopped" });
  }
  store.set({ writing: false });
  await look(store, signal.aborted ? (running = new AbortController()).signal : signal);
}

// A probability for each character: that of its token, or of all its tokens together, the last of which has its text.
function chancesOf(tokens) {
  let nats = 0;
  return tokens.flatMap(({ text, logprob }) => {
    nats += logprob;
    const chance = Math.exp(nats);
    if (text) nats = 0;
    return Array.from(text, () => chance);
  });
}

export function stop() {
  running?.abort();
}

// The gates of all that is there, also of a text that was stopped.
async function look(store, signal) {
  const state = store.get();
  if (!state.written || !(await features()).gates) return;
  const body = { text: state.wrote + state.written, model: writerOf(state) || undefined, top_k: 5, units: 64 };
  for (const smaller of [{}, { units: 16 }, { units: 16, layers: [-1], gates: ["h"] }]) {
    try {
      const gates = await post("gates", { ...body, ...smaller }, signal);
      store.set({ gates, trace: readTrace(gates), lyricsProblem: state.lyricsProblem });
      return;
    } catch (error) {
      if (aborted(error)) return;
      store.set({ lyricsProblem: problemOf(error) });
      if (error.status !== 422) return;
    }
  }
}
