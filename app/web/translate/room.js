// The room Translate: every panel is a view of the same state.

import { el, fill } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { original, told } from "../shell/problem.js";
import { demoBanner } from "../models/demo.js";
import { alignmentPanel } from "./alignment.js";
import { choice, pairName } from "./choice.js";
import { isPivot, knownPair, translatorOf } from "./decoding.js";
import { filesMenu } from "./files.js";
import { headPanel } from "./head.js";
import { headsPanel } from "./heads.js";
import { current, mapPanel } from "./map.js";
import { noticesPanel } from "./notices.js";
import { occlusionPanel } from "./occlusion.js";
import { sourcePane } from "./source.js";
import { startPanel } from "./start.js";
import { stepsPanel } from "./steps.js";
import { targetPane } from "./target.js";
import { tour, tourButton } from "./tour.js";
import { uploads } from "./upload.js";
import { viewSwitch } from "./view.js";
import { workedPanel } from "./worked.js";

export function translateRoom(store) {
  const problem = el("p", { class: "problem", role: "alert" });
  const note = el("p", { class: "note" });
  const inside = el("div", { class: "panels inside" });
  // Before the panels: what is hidden has no width to draw for.
  store.watch(["answer", "phase", "view"], ({ answer, phase, view }) => {
    inside.hidden = !answer || view !== "inside";
    inside.classList.toggle("stale", phase === "streaming" || phase === "inspecting");
  });
  const panels = [alignmentPanel, mapPanel, headsPanel, stepsPanel, headPanel, workedPanel, occlusionPanel];
  inside.append(...panels.map((panel) => panel(store)));
  const files = uploads(store);
  const use = (text) => store.set({ text, forced: null, s: -1, t: -1 });
  const banner = demoBanner(store, (state) => translatorOf(state).model, use, ({ text }) => !text.trim());
  const element = el("div", { class: "room translating" },
    el("div", { class: "sights" }, viewSwitch(store), tourButton(store)),
    el("div", { class: "top" }, choice(store), filesMenu(store, "attention", current, (state) => state.answer)),
    el("div", { class: "panes" }, sourcePane(store, files.button), targetPane(store)),
    noticesPanel(store), files.list, problem, note, banner, inside, startPanel(store));
  element.querySelector(".panes").after(tour(store, element)); // next to the text for those who use the keyboard
  files.target(element);

  store.watch(["view"], ({ view }) => { element.dataset.shows = view; });
  store.watch(["problem", "language"], (state) => fill(problem, state.problem?.where === "maps" && told(state.problem)));
  store.watch(["note", "language", "view", "pair", "detected", "languages", "models", "text"], (state) => {
    const pivot = state.view === "inside" && state.text.trim() && isPivot(state);
    fill(note, pivot ? t("inside.pivot", { pair: pairName(knownPair(state)) }) : state.note && [t("map.part"), " ", original(state.note, "")]);
  });
  scrollTogether(element.querySelector("#source"), element.querySelector("#target"));
  return element;
}

// As far as one of two texts is scrolled, so far is the other.
function scrollTogether(...pair) {
  const moved = new Map(); // where the page itself has put one: it leads nobody
  pair.forEach((from, i) => from.addEventListener("scroll", () => {
    const led = Math.abs((moved.get(from) ?? -2) - from.scrollTop) < 1;
    moved.delete(from);
    const to = pair[1 - i];
    const room = from.scrollHeight - from.clientHeight;
    if (led || room <= 0) return;
    const before = to.scrollTop;
    to.scrollTop = (from.scrollTop / room) * (to.scrollHeight - to.clientHeight);
    if (to.scrollTop !== before) moved.set(to, to.scrollTop);
  }, { passive: true }));
}
