// What the network's gates do at each character: a strip of means, and the most varied units as a heat map.

import { el, fill, setText } from "../shell/dom.js";
import { apiText, figure, t } from "../shell/language.js";
import { heatmap } from "../drawing/heatmap.js";
import { legend } from "../drawing/legend.js";
import { tableFallback } from "../drawing/table.js";
import { gateName, strip } from "./strip.js";

export function gatesPanel(store) {
  const title = el("h2");
  const note = el("p", { class: "note" });
  const curves = strip((at) => store.set({ at }));
  const gate = el("select", { id: "gate", onchange: () => store.set({ gate: gate.value }) });
  const layer = el("select", { id: "layer", onchange: () => store.set({ gateLayer: Number(layer.value), unit: -1 }) });
  const scale = legend();
  const names = [el("span"), el("span")];
  const map = heatmap({
    describe: (row, column) => described(store.get(), row, column),
    onHover: (row, column) => store.set({ at: column, hoverUnit: row }),
    onLock: (row) => store.set({ unit: store.get().unit === row ? -1 : row }),
  });
  const reading = el("p", { class: "caption reading" });
  const table = tableFallback(() => units(store.get()));
  const shown = el("div", {}, curves.element, el("div", { class: "controls" }, el("label", { class: "field" }, names[0], layer), el("label", { class: "field" }, names[1], gate), scale.element), map.element, reading, table.element);
  const element = el("section", { class: "panel wide" }, title, note, shown);

  store.watch(["trace", "features", "written", "language"], ({ trace, features, written }) => {
    setText(title, t("gates.title"));
    setText(note, trace ? `${trace.cell.toUpperCase()}: ${apiText("cells", trace.cell, trace.convention)}` : features && !features.gates ? t("missing.gates") : written ? "" : t("gates.empty"));
    shown.hidden = !trace;
    setText(names[0], t("gates.layer"));
    setText(names[1], t("gates.gate"));
    fill(layer, (trace?.layers ?? []).map((each) => el("option", { value: each.layer }, String(each.layer))));
    fill(gate, (trace?.gates ?? []).map((name) => el("option", { value: name }, ranged(name, trace.bounds[name]))));
  });
  store.watch(["trace", "gate", "gateLayer", "at", "hoverUnit", "unit", "painted", "language"], (state, keys) => {
    const one = layerOf(state);
    if (!one) return;
    layer.value = String(one.layer);
    gate.value = gateOf(state);
    const held = state.hoverUnit >= 0 ? state.hoverUnit : state.unit;
    curves.draw(held >= 0 ? [...one.curves, unitCurve(state, held)] : one.curves, state.at);
    const matrix = units(state);
    scale.draw(figure(matrix.low, 1), figure(matrix.high, 1), gateName(gateOf(state)));
    map.draw({ ...matrix, values: matrix.shares }, false, { row: held, column: state.at, locked: state.unit >= 0 });
    setText(reading, held >= 0 && state.at >= 0 ? described(state, held, state.at) : t("gates.hint"));
    if (!keys.has("at")) table.draw();
  });
  return element;
}

// With the numbers between which the answer says that it lies.
function ranged(gate, bounds) {
  const name = gateName(gate);
  return bounds ? `${name} (${t("strip.range", { low: figure(bounds[0], 0), high: figure(bounds[1], 0) })})` : name;
}

function layerOf({ trace, gateLayer }) {
  return trace?.layers.find((each) => each.layer === gateLayer) ?? trace?.layers.at(-1);
}

function gateOf({ trace, gate }) {
  return trace.gates.includes(gate) ? gate : trace.gates.at(-1);
}

// rows: units; columns: characters; values as they are, shares as the colours need them.
export function units(state) {
  const one = layerOf(state);
  if (!one) return null;
  const name = gateOf(state);
  const { values, low, high } = one.values[name];
  return {
    label: t("gates.label", { gate: gateName(name), layer: one.layer }),
    rows: one.units.map(String),
    columns: state.trace.characters.map((each) => (each.text === "\n" ? "⏎" : each.text)),
    values,
    shares: values.map((value) => (value - low) / (high - low || 1)),
    low,
    high,
  };
}

function unitCurve(state, row) {
  const { values, low, high, columns, rows } = units(state);
  const own = values.slice(row * columns.length, (row + 1) * columns.length);
  const most = own.indexOf(Math.max(...own));
  return { name: t("gates.unit", { gate: gateName(gateOf(state)), unit: rows[row], most, text: columns[most] }), values: own, low, high };
}

function described(state, row, column) {
  const matrix = units(state);
  if (!matrix || row >= matrix.rows.length || column >= matrix.columns.length) return "";
  return t("gates.cell", { unit: matrix.rows[row], text: matrix.columns[column], at: column, gate: gateName(gateOf(state)), value: figure(matrix.values[row * matrix.columns.length + column], 4) });
}
