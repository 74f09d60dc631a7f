// The two views of the room Translate: "translate" shows a translation and nothing else, "inside" how the model made
// it. The choice stays in this browser and in the address; a link that names a selection shows it.

import { el, setText } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { keep, kept } from "../shell/kept.js";

export const VIEWS = ["translate", "inside"];
const OF_INSIDE = ["forced", "kind", "layer", "head", "row", "s", "t"];

// What an address shows: its own word, or else what its other parts need, or else the view of the last visit.
export function viewOf(view, names) {
  if (VIEWS.includes(view)) return view;
  if (OF_INSIDE.some((name) => names.has(name))) return "inside";
  return VIEWS.includes(kept("view")) ? kept("view") : VIEWS[0];
}

// Pressing a view keeps it; following a link does not.
export function choose(store, view) {
  keep("view", view);
  store.set({ view });
}

export function viewSwitch(store) {
  const buttons = VIEWS.map((view) => el("button", { "data-view": view, onclick: () => choose(store, view) }));
  const element = el("div", { class: "views", role: "group" }, buttons);
  store.watch(["view", "language"], (state) => {
    element.setAttribute("aria-label", t("view.label"));
    buttons.forEach((button) => {
      setText(button, t(`view.${button.dataset.view}`));
      button.setAttribute("aria-pressed", button.dataset.view === state.view);
    });
  });
  return element;
}
