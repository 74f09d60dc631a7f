// Keyboard use of a drawn grid: role=grid with one cell in the document, the one that has the focus. Its place among
// all rows and columns is said by aria-rowindex and aria-colindex, so that 4,096 cells need not be elements.

import { el } from "../shell/dom.js";
import { say } from "../shell/live.js";

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// describe(row, column) -> sentence; place(row, column) -> {x, y, width, height} in CSS pixels; onMove, onPick, onLeave.
export function gridFocus({ describe, place, onMove, onPick, onLeave }) {
  const cell = el("div", { role: "gridcell", tabindex: "0", class: "focus-cell" });
  const row = el("div", { role: "row" }, cell);
  const element = el("div", { role: "grid", class: "focus-grid" }, row);
  let size = { rows: 0, columns: 0 };
  let at = { row: 0, column: 0 };

  function show() {
    row.setAttribute("aria-rowindex", at.row + 1);
    cell.setAttribute("aria-colindex", at.column + 1);
    cell.setAttribute("aria-label", size.rows ? describe(at.row, at.column) : "");
    const box = size.rows ? place(at.row, at.column) : { x: 0, y: 0, width: 0, height: 0 };
    for (const [name, key] of [["left", "x"], ["top", "y"], ["width", "width"], ["height", "height"]]) {
      cell.style.setProperty(name, `${box[key]}px`);
    }
  }

  function go(rowIndex, column) {
    at = { row: clamp(rowIndex, size.rows), column: clamp(column, size.columns) };
    show();
    onMove(at.row, at.column);
    say(describe(at.row, at.column));
  }

  cell.addEventListener("focus", () => size.rows && go(at.row, at.column));
  cell.addEventListener("blur", () => onLeave());
  cell.addEventListener("keydown", (event) => {
    if (!size.rows) return;
    const step = STEPS[event.key];
    if (step) go(at.row + step[0], at.column + step[1]);
    else if (event.key === "Home") go(event.ctrlKey ? 0 : at.row, 0);
    else if (event.key === "End") go(event.ctrlKey ? size.rows - 1 : at.row, size.columns - 1);
    else if (event.key === "PageUp") go(0, at.column);
    else if (event.key === "PageDown") go(size.rows - 1, at.column);
    else if (event.key === "Enter" || event.key === " ") onPick(at.row, at.column);
    else return;
    event.preventDefault();
  });

  function resize(label, rows, columns, current) {
    size = { rows, columns };
    element.setAttribute("aria-label", label);
    element.setAttribute("aria-rowcount", rows);
    element.setAttribute("aria-colcount", columns);
    if (current && document.activeElement !== cell) at = current;
    at = { row: clamp(at.row, rows), column: clamp(at.column, columns) };
    cell.hidden = !rows;
    show();
  }

  return { element, resize };
}

function clamp(index, count) {
  return Math.max(0, Math.min(count - 1, index));
}
