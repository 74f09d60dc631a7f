// The room Translate: every panel is a view of the same state.

import { el, fill } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { alignmentPanel } from "./alignment.js";
import { choice } from "./choice.js";
import { filesMenu } from "./files.js";
import { headPanel } from "./head.js";
import { headsPanel } from "./heads.js";
import { current, mapPanel } from "./map.js";
import { occlusionPanel } from "./occlusion.js";
import { sourcePane } from "./source.js";
import { stepsPanel } from "./steps.js";
import { targetPane } from "./target.js";
import { workedPanel } from "./worked.js";

export function translateRoom(store) {
  const problem = el("p", { class: "problem", role: "alert" });
  const note = el("p", { class: "note" });
  const inside = el("div", { class: "panels inside" });
  // Before the panels: what is hidden has no width to draw for.
  store.watch(["answer", "phase"], ({ answer, phase }) => {
    inside.hidden = !answer;
    inside.classList.toggle("stale", phase === "streaming" || phase === "inspecting");
  });
  const panels = [alignmentPanel, mapPanel, headsPanel, stepsPanel, headPanel, workedPanel, occlusionPanel];
  inside.append(...panels.map((panel) => panel(store)));
  const element = el("div", { class: "room" },
    el("div", { class: "top" }, choice(store), filesMenu(store, "attention", current, (state) => state.answer)),
    el("div", { class: "panes" }, sourcePane(store), targetPane(store)), problem, note, inside);

  store.watch(["problem", "note", "language"], (state) => {
    fill(problem, state.problem?.where === "maps" && state.problem.sentence);
    fill(note, state.note && t("map.part", { why: state.note }));
  });
  return element;
}
