// The page: one store, four rooms, and what stands above them.

import { features, get } from "./shell/api.js";
import { DEFAULTS, ROOMS, keepAddress, read } from "./shell/address.js";
import { el, fill, setText } from "./shell/dom.js";
import { forgetKey, watchKey } from "./shell/key.js";
import { startLanguage, t } from "./shell/language.js";
import { problemOf } from "./shell/problem.js";
import { createStore } from "./shell/state.js";
import { nextTheme, repaint, startTheme } from "./shell/theme.js";
import { startAsking } from "./translate/asking.js";
import { offered, pairsOf } from "./translate/decoding.js";
import { examplesFor } from "./translate/examples.js";
import { free } from "./translate/selection.js";
import { translateRoom } from "./translate/room.js";
import { lyricsRoom } from "./lyrics/room.js";
import { modelsRoom } from "./models/room.js";
import { startWalking, walkthroughRoom } from "./walkthrough/room.js";

const AGAIN_MS = 2000;
const BUILT = { translate: translateRoom, lyrics: lyricsRoom, walkthrough: walkthroughRoom, models: modelsRoom };
const store = createStore({
  ...DEFAULTS, ...read(location.hash),
  models: null, languages: [], features: null, settings: null, phase: "idle", target: "", notices: [], detected: "", suspected: "", progress: null, again: 0, stopped: 0, tour: -1, demoShown: null,
  answer: null, maps: {}, problem: null, note: null, timing: null,
  hover: null, hoverHead: null, written: "", chances: [], wrote: "", writing: false, finish: "", trace: null, gates: null, at: -1,
  hoverUnit: -1, gateLayer: -1, walked: null, walkProblem: null, lyricsProblem: null, examples: {}, served: null,
});

startTheme(store);
startLanguage(store);
buildRooms();
buildBar();
keepAddress(store);
startAsking(store);
startWalking(store);
load();

function buildRooms() {
  const main = document.getElementById("room");
  const built = {};
  store.watch(["room"], ({ room }) => {
    built[room] ??= BUILT[room](store);
    fill(main, built[room]);
    repaint(store);
  });
  // Not by its address, which names the room and what it shows.
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  // A file that misses the place for files would replace this page.
  for (const type of ["dragover", "drop"]) {
    addEventListener(type, (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault());
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && store.get().room === "translate") free(store);
  });
}

function buildBar() {
  const rooms = ROOMS.map((room) => el("a", { href: `#${room}`, "data-room": room, onclick: (event) => {
    event.preventDefault();
    store.set({ room });
  } }));
  const theme = el("button", { class: "link", id: "theme", onclick: () => store.set({ theme: nextTheme(store.get().theme) }) });
  const language = el("button", { class: "link", id: "language", onclick: () => store.set({ language: store.get().language === "en" ? "zh" : "en" }) });
  const forget = el("button", { class: "link", id: "forget", onclick: () => {
    forgetKey();
    location.reload();
  } });
  watchKey((known) => { forget.hidden = !known; });
  fill(document.getElementById("rooms"), rooms);
  fill(document.getElementById("tools"), forget, theme, language, el("a", { href: "docs", class: "link" }, "API"));
  store.watch(["room", "language", "theme"], (state) => {
    rooms.forEach((link) => {
      setText(link, t(`room.${link.dataset.room}`));
      if (link.dataset.room === state.room) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
    document.getElementById("rooms").setAttribute("aria-label", t("rooms"));
    document.getElementById("skip").textContent = t("skip");
    setText(forget, t("key.forget"));
    setText(theme, t(`theme.${state.theme}`));
    setText(language, state.language === "en" ? "中文" : "English");
    language.lang = state.language === "en" ? "zh" : "en";
    document.title = `${t(`room.${state.room}`)} · Parlance`;
  });
}

// A server that has just started has no models yet: it is asked again until it has.
async function load() {
  try {
    const [models, languages] = await offered();
    const pairs = pairsOf(models);
    // What stood there was an earlier try's. What the models' arrival asks for may fail before the features are here, and must stay.
    store.set({ models, languages, examples: examplesFor(models), pair: store.get().pair || pairs[0] || "", problem: null });
    const [described, settings] = await Promise.all([features(), get("frontend/settings")]);
    store.set({ features: described, settings });
    if (!models.length) setTimeout(load, AGAIN_MS);
  } catch (error) {
    store.set({ models: [], problem: problemOf(error, "maps") });
    setTimeout(load, AGAIN_MS);
  }
}
