// A tour of the attention view in five steps. It opens by itself once, when there is something to see, and again by its
// button. Each step shows its panel, and previews a selection there as a pointer would.

import { el, fill, setText } from "../shell/dom.js";
import { keep, kept } from "../shell/kept.js";
import { t } from "../shell/language.js";
import { say } from "../shell/live.js";
import { linksOf } from "./selection.js";

// Of each step the panel, and what is previewed in it.
const STEPS = [
  { name: "words", panel: ".panes", preview: (pair) => ({ hover: { ...pair, k: -1 } }) },
  { name: "alignment", panel: ".alignment", preview: (pair) => ({ hover: { ...pair, k: -1 } }) },
  { name: "map", panel: ".panel.map", preview: (pair) => ({ hover: { ...pair, k: -1 } }) },
  { name: "heads", panel: ".panel.heads", preview: (_, state) => ({ hoverHead: lastHead(state) }) },
  { name: "steps", panel: ".panel.choices", preview: ({ t: step }) => ({ hover: { s: -1, t: step, k: -1 } }) },
];
const NOTHING = { hover: null, hoverHead: null };

export function tourButton(store) {
  const button = el("button", { class: "link", id: "tour", onclick: () => store.set({ tour: 0 }) });
  store.watch(["language", "view", "answer"], ({ view, answer }) => {
    setText(button, t("tour.again"));
    button.hidden = view !== "inside" || !answer;
  });
  return button;
}

// room: the element that has the panels.
export function tour(store, room) {
  const title = el("h2", { id: "tour-title" });
  const text = el("p");
  const [back, next, skip] = ["back", "next", "skip"].map((name) => el("button", { class: name === "next" ? "action" : "link", "data-tour": name }));
  const element = el("section", { class: "tour", role: "dialog", "aria-labelledby": "tour-title", tabindex: "-1", hidden: true },
    title, text, el("p", { class: "controls" }, next, back, skip));
  let returning = null; // what had the focus before

  const go = (step) => store.set({ tour: step, ...NOTHING });
  const end = () => {
    const inside = element.contains(document.activeElement);
    keep("tour", "done");
    go(-1);
    if (inside) (returning?.isConnected ? returning : document.getElementById("tour"))?.focus();
  };
  const forward = () => (store.get().tour === STEPS.length - 1 ? end() : go(store.get().tour + 1));
  back.addEventListener("click", () => go(store.get().tour - 1));
  next.addEventListener("click", forward);
  skip.addEventListener("click", end);
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") end();
    else if (event.key === "ArrowRight") forward();
    else if (event.key === "ArrowLeft") go(Math.max(0, store.get().tour - 1));
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  // Also for those who go on typing beside it.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !element.hidden) end();
  });

  store.watch(["answer", "view", "room", "phase"], (state) => {
    const ready = state.room === "translate" && state.view === "inside" && state.answer && state.phase === "done";
    if (ready && state.tour < 0 && kept("tour") !== "done") store.set({ tour: 0 });
    else if (state.tour >= 0 && (state.room !== "translate" || state.view !== "inside" || !state.answer)) store.set({ tour: -1 });
  });
  store.watch(["tour", "language"], (state, keys) => {
    const step = STEPS[state.tour];
    room.querySelectorAll(".toured").forEach((panel) => panel.classList.remove("toured"));
    element.hidden = !step;
    if (!step) return;
    setText(title, `${t(`tour.${step.name}`)} · ${state.tour + 1} / ${STEPS.length}`);
    setText(text, t(`tour.${step.name}Text`));
    setText(back, t("walk.back"));
    setText(next, t(state.tour === STEPS.length - 1 ? "tour.end" : "walk.next"));
    setText(skip, t("tour.skip"));
    back.disabled = state.tour === 0;
    skip.hidden = state.tour === STEPS.length - 1;
    const panel = room.querySelector(step.panel);
    panel?.classList.add("toured");
    if (!keys.has("tour")) return;
    panel?.scrollIntoView({ block: "center" });
    store.set(step.preview(firstPair(state), state));
    say(`${title.textContent}. ${text.textContent}`);
    takeFocus();
  });

  // Nobody who is typing loses the caret to a tour that began by itself.
  function takeFocus() {
    const active = document.activeElement;
    if (element.contains(active) || ["TEXTAREA", "INPUT"].includes(active?.tagName)) return;
    returning = active === document.body ? null : active;
    element.focus({ preventScroll: true });
  }
  return element;
}

// The first words that are aligned; without an alignment the first ones.
function firstPair({ answer }) {
  const links = linksOf(answer) ?? [];
  const link = links.find(({ s }) => s > 0) ?? links[0];
  return link ? { s: link.s, t: link.t } : { s: 0, t: 0 };
}

function lastHead({ maps, kind }) {
  const map = maps[kind] ?? maps.cross;
  return map ? { layer: map.layers.at(-1), head: map.heads[0] } : null;
}
