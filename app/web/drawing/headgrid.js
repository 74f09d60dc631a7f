// Layers × heads, a thumbnail each, and a last column with the mean of the layer's heads.

import { el, ink, sized } from "../shell/dom.js";
import { gridFocus } from "./gridfocus.js";
import { byRow, raster } from "./raster.js";

const LEFT = 26;
const TOP = 18;
const GAP = 4;

// onHover(layerIndex, headIndex) with -1, -1 for none; onLock likewise. The last column is the mean.
export function headgrid({ describe, onHover, onLock }) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  let box = null;
  const focus = gridFocus({
    describe,
    place: (row, column) => place(box, row, column),
    onMove: onHover,
    onPick: onLock,
    onLeave: () => onHover(-1, -1),
  });
  const element = el("div", { class: "cells" }, canvas, focus.element);

  const at = (event) => {
    if (!box) return null;
    const column = Math.floor((event.offsetX - LEFT) / (box.width + GAP));
    const row = Math.floor((event.offsetY - TOP) / (box.height + GAP));
    return row >= 0 && column >= 0 && row < box.layers && column < box.columns ? { row, column } : null;
  };
  canvas.addEventListener("pointermove", (event) => onHover(at(event)?.row ?? -1, at(event)?.column ?? -1));
  canvas.addEventListener("pointerleave", () => onHover(-1, -1));
  canvas.addEventListener("click", (event) => at(event) && onLock(at(event).row, at(event).column));

  // pictures[layer][column]: {values, rows, columns}; names: {layers, columns}; chosen: {row, column}, -1 for none.
  function draw(label, pictures, names, chosen, normalised) {
    const full = element.clientWidth || 320;
    box = layout(pictures, full);
    const context = sized(canvas, full, TOP + box.layers * (box.height + GAP));
    context.imageSmoothingEnabled = false;
    context.font = "13px system-ui, sans-serif";
    context.textBaseline = "middle";
    pictures.forEach((layer, row) => layer.forEach((each, column) => {
      const { x, y, width, height } = place(box, row, column);
      const values = normalised ? byRow(each.values, each.rows, each.columns) : each.values;
      context.drawImage(raster(values, each.rows, each.columns), x, y, width, height);
    }));
    context.fillStyle = ink("--quiet");
    context.textAlign = "right";
    names.layers.forEach((name, row) => context.fillText(name, LEFT - 8, TOP + row * (box.height + GAP) + box.height / 2));
    context.textAlign = "center";
    names.columns.forEach((name, column) => context.fillText(name, LEFT + column * (box.width + GAP) + box.width / 2, TOP / 2));
    if (chosen.row >= 0) frame(context, place(box, chosen.row, chosen.column));
    focus.resize(label, box.layers, box.columns, { row: Math.max(0, chosen.row), column: Math.max(0, chosen.column) });
  }

  return { element, draw };
}

function layout(pictures, full) {
  const [layers, columns] = [pictures.length, pictures[0]?.length ?? 0];
  const width = Math.min(88, (full - LEFT) / columns - GAP);
  const ratio = pictures[0]?.[0] ? pictures[0][0].rows / pictures[0][0].columns : 1;
  const height = Math.max(12, Math.min(88, width * Math.min(1.4, Math.max(0.5, ratio))));
  return { layers, columns, width, height };
}

function place(box, row, column) {
  return { x: LEFT + column * (box.width + GAP), y: TOP + row * (box.height + GAP), width: box.width, height: box.height };
}

function frame(context, { x, y, width, height }) {
  context.strokeStyle = ink("--accent");
  context.lineWidth = 3;
  context.strokeRect(x - 1, y - 1, width + 2, height + 2);
}
