// A matrix as a picture of one pixel for each value, which the canvas then enlarges without smoothing.

import { CIVIDIS } from "./colour.js";

const RGB = CIVIDIS.map((colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)));

// values: rows * columns numbers of 0 to 1, row after row.
export function raster(values, rows, columns) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i += 1) {
    const [red, green, blue] = RGB[Math.max(0, Math.min(255, Math.round(values[i] * 255)))];
    image.data.set([red, green, blue, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// Each row divided by its own largest value.
export function byRow(values, rows, columns) {
  const scaled = new Float32Array(values.length);
  for (let r = 0; r < rows; r += 1) {
    let largest = 0;
    for (let c = 0; c < columns; c += 1) largest = Math.max(largest, values[r * columns + c]);
    for (let c = 0; c < columns; c += 1) scaled[r * columns + c] = largest ? values[r * columns + c] / largest : 0;
  }
  return scaled;
}
