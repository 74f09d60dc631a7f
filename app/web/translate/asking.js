// From what is typed to what is shown. The request of an older text is aborted.

import { aborted, features, post } from "../shell/api.js";
import { problemOf } from "../shell/problem.js";
import { stream } from "../shell/stream.js";
import { AUTO, isPivot } from "./decoding.js";
import { inspect } from "./looking.js";
import { inParts, isLong } from "./parts.js";
import { beginning, suspect } from "./suspecting.js";

const PAUSE_MS = 300;
const DETECTED_CHARACTERS = 2000;
const NOTHING = { answer: null, maps: {}, problem: null, note: null, notices: [], progress: null };
const EMPTY = { ...NOTHING, phase: "idle", target: "", detected: "" };

export function startAsking(store) {
  let running = null;
  let timer = 0;
  let asked = "";
  store.watch(["room", "models", "text", "pair", "model", "beam", "forced", "again"], (state, keys) => {
    if (state.room !== "translate" || !state.models) return;
    const wanted = JSON.stringify([state.text, state.pair, state.model, state.beam, state.forced, state.again]);
    if (wanted === asked) return;
    asked = wanted;
    clearTimeout(timer);
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    store.set({ notices: [], progress: null, suspected: "" }); // at once: they are about another text
    if (!state.text.trim()) store.set(EMPTY);
    else if (keys.has("again")) answerTo(store, signal); // at once: the bar and its focused button stay in sight
    else timer = setTimeout(() => answerTo(store, signal), keys.has("text") && !keys.has("models") ? PAUSE_MS : 0);
  });
  // The view was changed after the translation had come: the same translation is looked into.
  store.watch(["view"], ({ view, phase, answer }) => {
    if (view === "inside" && phase === "done" && !answer) attempt(store, running.signal, () => look(store, store.get(), running.signal));
  });
  store.watch(["stopped"], ({ stopped, phase }) => {
    if (!stopped || phase !== "streaming") return;
    running.abort();
    store.set({ phase: "stopped" });
  });
}

// A translation that was stopped, or that failed on its way, goes on from what there is.
export function goOn(store) {
  store.set({ again: store.get().again + 1 });
}

export function stop(store) {
  store.set({ stopped: store.get().stopped + 1 });
}

function answerTo(store, signal) {
  const state = store.get();
  const begun = isLong(state.text) ? {} : { target: state.forced ?? "" }; // of a long text what is known stays where it is
  store.set({ ...NOTHING, phase: "streaming", hover: null, timing: null, ...begun });
  return attempt(store, signal, async () => {
    await (isLong(state.text) ? translatedInParts : translated)(store, state, signal);
    if (signal.aborted) return;
    suspect(store, state, signal);
    if (store.get().view === "inside") await look(store, state, signal);
    else store.set({ phase: "done" });
  });
}

async function attempt(store, signal, work) {
  try {
    await work();
  } catch (error) {
    if (aborted(error) || signal.aborted) return;
    store.set({ phase: "failed", problem: problemOf(error, causeOf(error, store.get().phase)), answer: null, maps: {} });
  }
}

async function look(store, state, signal) {
  if (isPivot(store.get())) return store.set({ phase: "done" }); // which the room says
  store.set({ phase: "inspecting" });
  return inspect(store, { ...state, detected: store.get().detected }, await features(), signal);
}

// Beside what it is shown: the languages and the model, the text, or the maps.
function causeOf({ field, code }, phase) {
  if (code === "text_too_long") return "text";
  if (phase === "inspecting") return "maps";
  return ["source", "target", "model"].includes(field) ? "choice" : "text";
}

function requested(state) {
  const [source, target] = state.pair.split(".");
  const body = { source, target, model: state.model || undefined };
  if (state.beam) body.beam_size = state.beam;
  return body;
}

// The translation, streamed; from a forced beginning on where there is one.
async function translated(store, state, signal) {
  const body = { ...requested(state), q: state.text };
  if (state.forced !== null) body.prefix = state.forced;
  let text = "";
  await stream("translate", body, signal, (name, data) => {
    if (name !== "done") return store.set({ target: (text += data.text) });
    const cut = data.finishReason === "length" ? [{ code: "length" }] : [];
    return store.set({ target: data.translatedText, detected: data.detectedLanguage?.language ?? "", timing: data.timing ?? null, notices: [...(data.notices ?? []), ...cut] });
  });
}

// The language of a long text is detected once, and not anew for each line.
async function translatedInParts(store, state, signal) {
  const body = requested(state);
  if (body.source === AUTO) {
    [{ language: body.source }] = await post("detect", { q: beginning(state.text, DETECTED_CHARACTERS) }, signal);
    store.set({ detected: body.source });
  }
  await inParts(state.text, body, signal, ({ target, done, total, notices }) => {
    if (!signal.aborted) store.set({ target, notices, progress: { done, total } });
  });
}
