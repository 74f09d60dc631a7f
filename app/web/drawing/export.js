// Files of what is shown: SVG and PNG of the map, CSV of its numbers, JSON of the API's answer.

import { svg } from "../shell/dom.js";
import { CIVIDIS, heat } from "./colour.js";
import { byRow } from "./raster.js";

const CELL = 26;
const FONT = "system-ui, 'Noto Sans CJK SC', sans-serif";

export function save(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export function json(answer) {
  return new Blob([JSON.stringify(answer, null, 1)], { type: "application/json" });
}

// Fields with quotes as RFC 4180 has them; one that a spreadsheet would take for a formula is kept a text.
export function csv({ rows, columns, values }) {
  const field = (text) => `"${(/^'*[=+\-@\t\r\n]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  const lines = [["", ...columns].map(field).join(",")];
  rows.forEach((name, row) => {
    const numbers = columns.map((_, column) => String(Number(values[row * columns.length + column].toPrecision(7))));
    lines.push([field(name), ...numbers].join(","));
  });
  return new Blob([`\ufeff${lines.join("\r\n")}\r\n`], { type: "text/csv;charset=utf-8" });
}

export function picture({ rows, columns, values, label }, normalised, note) {
  const wide = (names) => Math.max(24, ...names.map((name) => 8 * Array.from(name).length + 12));
  const [left, top] = [Math.min(180, wide(rows)), Math.min(150, wide(columns)) + 28];
  const shown = normalised ? byRow(values, rows.length, columns.length) : values;
  const width = Math.max(360, left + columns.length * CELL + 60);
  const height = top + rows.length * CELL + 56;
  const text = (x, y, words, options = {}) => svg("text", { x, y, "font-size": 13, fill: "#1b1f24", ...options }, words);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "font-family": FONT },
    svg("rect", { width, height, fill: "#ffffff" }), text(8, 18, label));
  columns.forEach((name, column) => {
    const x = left + (column + 0.5) * CELL;
    drawing.append(text(x, top - 6, name, { transform: `rotate(-45 ${x} ${top - 6})` }));
  });
  rows.forEach((name, row) => {
    drawing.append(text(left - 6, top + (row + 0.68) * CELL, name, { "text-anchor": "end" }));
    columns.forEach((column, at) => {
      const weight = shown[row * columns.length + at];
      const cell = svg("rect", { x: left + at * CELL, y: top + row * CELL, width: CELL, height: CELL, fill: heat(weight) });
      cell.append(svg("title", {}, `${name} → ${column}: ${values[row * columns.length + at].toFixed(4)}`));
      drawing.append(cell);
    });
  });
  const y = top + rows.length * CELL + 20;
  CIVIDIS.forEach((colour, i) => i % 4 === 0 && drawing.append(svg("rect", { x: left + i / 2, y, width: 2.2, height: 10, fill: colour })));
  drawing.append(text(left - 12, y + 10, "0"), text(left + 134, y + 10, `1 ${note}`));
  return drawing;
}

export function svgFile(drawing) {
  return new Blob([new XMLSerializer().serializeToString(drawing)], { type: "image/svg+xml" });
}

export async function pngFile(drawing, scale = 2) {
  const address = URL.createObjectURL(svgFile(drawing));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = scale * Number(drawing.getAttribute("width"));
    canvas.height = scale * Number(drawing.getAttribute("height"));
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}
