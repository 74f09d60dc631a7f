// One matrix with the names of its rows and columns: a canvas, and a grid for the keyboard above it.

import { el, ink, sized } from "../shell/dom.js";
import { gridFocus } from "./gridfocus.js";
import { byRow, raster } from "./raster.js";

const FONT = "13px system-ui, sans-serif";
const TALLEST = 440;
const LINE = 14;

// describe(row, column) -> sentence; onHover(row, column) or onHover(-1, -1); onLock(row, column).
export function heatmap({ describe, onHover, onLock }) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  let shown = null;
  const focus = gridFocus({
    describe,
    place: (row, column) => place(shown.box, row, column),
    onMove: onHover,
    onPick: onLock,
    onLeave: () => onHover(-1, -1),
  });
  const element = el("div", { class: "cells" }, canvas, focus.element);

  canvas.addEventListener("pointermove", (event) => {
    const cell = shown && hit(shown.box, event.offsetX, event.offsetY);
    if (cell) onHover(cell.row, cell.column);
    else onHover(-1, -1);
  });
  canvas.addEventListener("pointerleave", () => onHover(-1, -1));
  canvas.addEventListener("click", (event) => {
    const cell = shown && hit(shown.box, event.offsetX, event.offsetY);
    if (cell) onLock(cell.row, cell.column);
  });

  // matrix: {values, rows: [names], columns: [names], label}; marked: {row, column, locked} with -1 for none.
  function draw(matrix, normalised, marked) {
    const width = element.clientWidth || 320;
    const box = layout(matrix, width);
    shown = { box };
    const context = sized(canvas, width, box.top + box.rows * box.cellHeight + 2);
    const values = normalised ? byRow(matrix.values, box.rows, box.columns) : matrix.values;
    context.imageSmoothingEnabled = false;
    const picture = raster(values, box.rows, box.columns);
    context.drawImage(picture, box.left, box.top, box.columns * box.cellWidth, box.rows * box.cellHeight);
    names(context, matrix, box, marked);
    frames(context, box, marked);
    focus.resize(matrix.label, box.rows, box.columns, { row: Math.max(0, marked.row), column: Math.max(0, marked.column) });
  }

  return { element, draw };
}

function layout(matrix, width) {
  const measure = document.createElement("canvas").getContext("2d");
  measure.font = FONT;
  const widest = (labels, most) => Math.min(most, Math.max(0, ...labels.map((each) => measure.measureText(each).width)));
  const left = Math.ceil(widest(matrix.rows, width * 0.28)) + 8;
  const top = Math.ceil(widest(matrix.columns, 96) * 0.75) + 16;
  const columns = matrix.columns.length;
  const rows = matrix.rows.length;
  const cellWidth = Math.min(56, (width - left - 24) / columns);
  const cellHeight = Math.max(Math.min(34, cellWidth, TALLEST / rows), 4);
  return { left, top, rows, columns, cellWidth, cellHeight };
}

function place(box, row, column) {
  const { left, top, cellWidth, cellHeight } = box;
  return { x: left + column * cellWidth, y: top + row * cellHeight, width: cellWidth, height: cellHeight };
}

function hit(box, x, y) {
  const column = Math.floor((x - box.left) / box.cellWidth);
  const row = Math.floor((y - box.top) / box.cellHeight);
  return row >= 0 && column >= 0 && row < box.rows && column < box.columns ? { row, column } : null;
}

// Names that would run into each other are left out, but for the marked one.
function names(context, matrix, box, marked) {
  context.font = FONT;
  context.textBaseline = "middle";
  matrix.rows.forEach((name, row) => {
    if (!room(row, marked.row, box.cellHeight)) return;
    context.fillStyle = ink(row === marked.row ? "--accent" : "--quiet");
    context.textAlign = "right";
    context.fillText(cut(context, name, box.left - 8), box.left - 6, box.top + (row + 0.5) * box.cellHeight);
  });
  matrix.columns.forEach((name, column) => {
    if (!room(column, marked.column, box.cellWidth)) return;
    context.save();
    context.fillStyle = ink(column === marked.column ? "--accent" : "--quiet");
    context.translate(box.left + (column + 0.5) * box.cellWidth, box.top - 6);
    context.rotate(-Math.PI / 4);
    context.textAlign = "left";
    context.fillText(cut(context, name, 96), 0, 0);
    context.restore();
  });
}

// The marked one always has room; of the others every so many, and none too near to it.
function room(index, marked, size) {
  if (index === marked || size >= LINE) return true;
  return index % Math.ceil(LINE / size) === 0 && (marked < 0 || Math.abs(index - marked) * size >= LINE);
}

function frames(context, box, marked) {
  const wide = box.columns * box.cellWidth;
  const high = box.rows * box.cellHeight;
  context.strokeStyle = ink("--accent");
  context.lineWidth = marked.locked ? 2 : 1;
  if (marked.row >= 0) context.strokeRect(box.left, box.top + marked.row * box.cellHeight, wide, box.cellHeight);
  if (marked.column >= 0) context.strokeRect(box.left + marked.column * box.cellWidth, box.top, box.cellWidth, high);
}

function cut(context, text, most) {
  if (context.measureText(text).width <= most) return text;
  let short = Array.from(text);
  while (short.length > 1 && context.measureText(`${short.join("")}…`).width > most) short = short.slice(0, -1);
  return `${short.join("")}…`;
}
