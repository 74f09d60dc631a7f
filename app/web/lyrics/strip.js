// Means of the gates of one layer, a curve each over the characters.

import { el, fill, svg } from "../shell/dom.js";
import { figure, t } from "../shell/language.js";

const HIGH = 44;

// curves: [{name, values, low, high}], or in place of a name the gate whose means they are; onHover(index) or onHover(-1).
export function strip(onHover) {
  const element = el("div", { class: "strip" });
  const move = (event) => {
    const box = element.querySelector("svg")?.getBoundingClientRect();
    if (!box) return;
    const count = Number(element.dataset.count);
    onHover(Math.max(0, Math.min(count - 1, Math.floor(((event.clientX - box.left) / box.width) * count))));
  };
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerleave", () => onHover(-1));

  function draw(curves, at) {
    element.dataset.count = curves[0]?.values.length ?? 0;
    fill(element, curves.map((curve) => {
      const name = curve.name ?? t("gates.mean", { gate: gateName(curve.gate) });
      const shown = at >= 0 && curve.values[at] !== undefined ? figure(curve.values[at], 3) : t("strip.range", { low: figure(curve.low, 2), high: figure(curve.high, 2) });
      return el("figure", {}, el("figcaption", { class: "caption" }, `${name} ${shown}`), line(curve, at));
    }));
  }

  return { element, draw };
}

// A gate as people call it, and by its letter; that of a cell which the page has never heard of by its letter alone.
export function gateName(gate) {
  const words = t(`gate.${gate}`);
  return words === `gate.${gate}` ? gate : `${words} ${gate}`;
}

function line({ values, low, high }, at) {
  const count = values.length;
  const y = (value) => (HIGH - 1 - ((HIGH - 2) * (value - low)) / (high - low || 1)).toFixed(1);
  const points = Array.from(values, (value, i) => `${i + 0.5},${y(value)}`).join(" ");
  const picture = svg("svg", { viewBox: `0 0 ${count} ${HIGH}`, preserveAspectRatio: "none", class: "curve", "aria-hidden": "true" },
    svg("polyline", { points, class: "curve-line", "vector-effect": "non-scaling-stroke" }));
  if (at >= 0) picture.append(svg("line", { x1: at + 0.5, x2: at + 0.5, y1: 0, y2: HIGH, class: "curve-at", "vector-effect": "non-scaling-stroke" }));
  return picture;
}
