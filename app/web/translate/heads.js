// Layers × heads: a thumbnail each.

import { el, setText } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { headgrid } from "../drawing/headgrid.js";
import { headName } from "./alignment.js";
import { matrixOf } from "./maps.js";
import { activeHead, lockHead } from "./selection.js";

export function headsPanel(store) {
  const grid = headgrid({
    describe: (row, column) => headName(...headAt(store.get(), row, column)),
    onHover: (row, column) => preview(store, row, column),
    onLock: (row, column) => lockHead(store, ...headAt(store.get(), row, column)),
  });
  const title = el("h2");
  const mean = el("button", { class: "link", onclick: () => store.set({ layer: -1, head: -1, hoverHead: null }) });
  const caption = el("p", { class: "caption" });
  const element = el("section", { class: "panel heads" }, title, el("div", { class: "controls" }, mean), grid.element, caption);
  let pictures = [];

  store.watch(["answer", "maps", "kind", "language"], ({ maps, kind }) => {
    const map = maps[kind];
    pictures = map && kind !== "rollout" ? map.layers.map((layer) => [...map.heads, -1].map((head) => (
      { values: matrixOf(map, layer, head), rows: map.rows, columns: map.columns }))) : [];
    element.classList.toggle("empty", !pictures.length);
    setText(title, t("heads.title"));
    setText(mean, t("heads.mean"));
    setText(caption, t("heads.hint"));
  });
  store.watch(["answer", "maps", "kind", "layer", "head", "row", "painted", "language"], (state) => {
    const map = state.maps[state.kind];
    if (!pictures.length || !map) return;
    const names = { layers: map.layers.map((layer) => String(layer)), columns: [...map.heads.map((head) => String(head)), "μ"] };
    const row = map.layers.indexOf(state.layer);
    const column = state.head < 0 ? map.heads.length : map.heads.indexOf(state.head);
    grid.draw(t("heads.label"), pictures, names, row < 0 ? { row: -1, column: -1 } : { row, column }, state.row);
    mean.setAttribute("aria-pressed", state.layer < 0 && state.head < 0);
  });
  return element;
}

function headAt(state, row, column) {
  const map = state.maps[state.kind];
  if (!map || row < 0) return [-1, -1];
  return [map.layers[row], column < map.heads.length ? map.heads[column] : -1];
}

function preview(store, row, column) {
  const state = store.get();
  if (row < 0) return store.set({ hoverHead: null });
  const [layer, head] = headAt(state, row, column);
  const shown = activeHead(state);
  if (state.hoverHead && shown.layer === layer && shown.head === head) return undefined;
  return store.set({ hoverHead: { layer, head } });
}
