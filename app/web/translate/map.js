// The heat map of the chosen head, or of a mean, with its legend, its files and its table.

import { el, fill, setText } from "../shell/dom.js";
import { figure, t } from "../shell/language.js";
import { heatmap } from "../drawing/heatmap.js";
import { legend } from "../drawing/legend.js";
import { tableFallback } from "../drawing/table.js";
import { headName } from "./alignment.js";
import { axesOf, matrixOf, nameOf } from "./maps.js";
import { active, activeHead, hover, lock } from "./selection.js";

export const KINDS = ["cross", "encoder", "decoder", "rollout"];

export function mapPanel(store) {
  const grid = heatmap({
    describe: (row, column) => described(store.get(), row, column),
    onHover: (row, column) => hover(store, tokensAt(store.get(), row, column)),
    onLock: (row, column) => lock(store, tokensAt(store.get(), row, column)),
  });
  const scale = legend();
  const kind = el("select", { id: "kind", onchange: (event) => store.set({ kind: event.target.value }) });
  const row = el("input", { type: "checkbox", id: "row", onchange: (event) => store.set({ row: event.target.checked }) });
  const rowLabel = el("label", { for: "row" });
  const title = el("h2");
  const value = el("p", { class: "caption reading" });
  const table = tableFallback(() => current(store.get()));
  const element = el("section", { class: "panel map" }, title,
    el("div", { class: "controls" }, el("label", { class: "field" }, el("span", { class: "unseen" }), kind), el("span", { class: "switch" }, row, rowLabel), scale.element),
    grid.element, value, table.element);

  store.watch(["maps", "kind", "language"], (state) => {
    fill(kind, KINDS.filter((each) => state.maps[each] || (each !== "rollout" && !state.answer)).map((each) => el("option", { value: each }, t(`kind.${each}`))));
    kind.value = state.kind;
    kind.previousElementSibling.textContent = t("map.kind");
    rowLabel.textContent = t("map.row");
  });
  store.watch(["answer", "maps", "kind", "layer", "head", "hoverHead", "hover", "s", "t", "row", "painted", "language"], (state, keys) => {
    row.checked = state.row;
    scale.weights(state.row);
    const matrix = current(state);
    element.classList.toggle("empty", !matrix);
    if (!matrix) return;
    const { layer, head } = activeHead(state);
    setText(title, `${t(`kind.${state.kind}`)} · ${state.kind === "rollout" ? t("map.rollout") : headName(layer, head)}`);
    grid.draw(matrix, state.row, marks(state));
    setText(value, reading(state, matrix));
    if (!(keys.size === 1 && keys.has("hover"))) table.draw();
  });
  return element;
}

// What is shown now, with names: also what is exported.
export function current(state) {
  const map = state.maps[state.kind];
  if (!state.answer || !map) return null;
  const { layer, head } = activeHead(state);
  const axes = axesOf(state.answer, state.kind);
  const whole = state.kind === "rollout";
  return {
    values: matrixOf(map, whole ? -1 : layer, whole ? -1 : head),
    rows: axes.rows.map(nameOf),
    columns: axes.columns.map(nameOf),
    label: `${t(`kind.${state.kind}`)}: ${whole ? t("map.rollout") : headName(layer, head)}`,
  };
}

// A cell as a selection. Of self-attention only the row is a token of the linked views.
function tokensAt(state, row, column) {
  if (row < 0) return {};
  if (state.kind === "encoder") return { s: row, k: column };
  if (state.kind === "decoder") return { t: row, k: column };
  return { t: row, s: column };
}

function marks(state) {
  const { s, t: step, k } = active(state);
  const locked = !state.hover;
  if (state.kind === "encoder") return { row: s, column: k, locked };
  if (state.kind === "decoder") return { row: step, column: k, locked };
  return { row: step, column: s, locked };
}

function described(state, row, column) {
  const matrix = current(state);
  if (!matrix) return "";
  const weight = matrix.values[row * matrix.columns.length + column];
  return t("map.cell", { row: matrix.rows[row], column: matrix.columns[column], weight: figure(weight, 4) });
}

function reading(state, matrix) {
  const { row, column } = marks(state);
  if (row >= 0 && column >= 0 && row < matrix.rows.length && column < matrix.columns.length) return described(state, row, column);
  return t("map.hint");
}
