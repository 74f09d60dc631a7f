// The state that a link keeps. It stands behind the "#", which browsers do not send: texts stay on this machine. A text
// too long for a link is kept with the entry of the browser's history, so that a reload has it still.

import { isServed, pairsOf } from "../translate/decoding.js";
import { viewOf } from "../translate/view.js";

const LONGEST_TEXT = 2000;
const KEPT = {
  translate: {
    view: "", pair: "", model: "", beam: 0, text: "", forced: null, kind: "cross", layer: -1, head: -1, row: false, s: -1, t: -1,
  },
  lyrics: { writer: "", prompt: "", temperature: 0.8, topK: 40, seed: "", length: 100, gate: "", unit: -1 },
  walkthrough: { pair: "", model: "", text: "", side: "decoder", wLayer: 0, wHead: 0, wPosition: 0, card: 0 },
  models: {},
};
export const ROOMS = Object.keys(KEPT);
export const DEFAULTS = Object.assign({ room: "translate" }, ...Object.values(KEPT));

export function read(hash, entry = history.state) {
  const [room, query = ""] = hash.replace(/^#/, "").split("?");
  const found = { ...DEFAULTS, room: ROOMS.includes(room) ? room : "translate" };
  const given = new URLSearchParams(query);
  for (const [key, fallback] of Object.entries(KEPT[found.room])) {
    if (given.has(key)) found[key] = parsed(given.get(key), fallback);
  }
  if (!/^[^.]+\.[^.]+$/.test(found.pair)) found.pair = ""; // as somebody may type it
  if ("text" in KEPT[found.room] && !given.has("text") && entry?.text) found.text = entry.text;
  found.view = viewOf(found.room === "translate" ? found.view : "", given);
  return found;
}

export function fitsLink({ room, text }) {
  return !("text" in KEPT[room]) || text.length <= LONGEST_TEXT;
}

export function write(state) {
  const query = new URLSearchParams();
  for (const [key, fallback] of Object.entries(KEPT[state.room])) {
    if (key === "text" && !fitsLink(state)) continue;
    if (state[key] !== fallback && state[key] !== null) query.set(key, String(state[key]));
  }
  const text = query.toString();
  return `#${state.room}${text ? `?${text}` : ""}`;
}

// What the link has no room for.
function entryOf(state) {
  return !fitsLink(state) ? { text: state.text } : null;
}

function parsed(text, fallback) {
  if (typeof fallback === "number") return Number.isFinite(Number(text)) && text !== "" ? Number(text) : fallback;
  if (typeof fallback === "boolean") return text === "true";
  return text;
}

let known = location.hash; // another one was typed or followed, and is not to be written over before it is heard of

// Now, whatever is still to be written.
export function keep(store) {
  if (location.hash !== known) return;
  const hash = write(store.get());
  const entry = entryOf(store.get());
  if (hash !== known || entry?.text !== history.state?.text) history.replaceState(entry, "", hash);
  known = location.hash;
}

// Keeps the address and the store the same. Rooms are steps of the browser's history, selections are not.
export function keepAddress(store) {
  let shownRoom = store.get().room;
  let timer = 0;
  store.watch(null, (state) => {
    clearTimeout(timer);
    if (state.room !== shownRoom) {
      shownRoom = state.room;
      history.pushState(entryOf(state), "", write(state));
      known = location.hash;
    } else {
      timer = setTimeout(keep, 150, store);
    }
  });
  addEventListener("popstate", (event) => {
    const found = read(location.hash, event.state);
    known = location.hash;
    shownRoom = found.room;
    store.set(pick({ ...found, pair: found.pair || pairOf(store.get()) }));
  });
}

// Of an address that names no languages: those that are shown, where they are translated.
function pairOf(state) {
  return state.pair && isServed(state, state.pair) ? state.pair : pairsOf(state.models ?? [])[0] ?? "";
}

// Of an address only what its room keeps: other rooms go on as they were.
function pick(found) {
  const keys = ["room", ...Object.keys(KEPT[found.room])];
  return Object.fromEntries(keys.map((key) => [key, found[key]]));
}
