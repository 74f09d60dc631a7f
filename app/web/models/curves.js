// How a model was trained: losses and scores over updates.

import { el, svg } from "../shell/dom.js";
import { apiText, grouped, t } from "../shell/language.js";
import { original } from "../shell/problem.js";

// What GET /models/NAME/curves says. The text says the same as the picture.
export function training({ curves, reason }) {
  const shown = curves.filter(({ name }) => name !== "rate");
  if (!shown.length) return el("p", { class: "caption" }, original(reason, t("models.noCurves")));
  const end = Math.max(1, ...shown.map(({ updates }) => updates.at(-1)));
  return el("div", { class: "caption training" },
    svg("svg", { viewBox: "0 0 320 136", "aria-hidden": "true" },
      svg("path", { d: "M0 108h320" }), label(0, 134, 0), label(1, 134, `${grouped(end)} ${t("models.updates")}`),
      [...new Set(shown.map(({ unit }) => unit))].map((unit, right) => {
        const same = shown.filter((curve) => curve.unit === unit);
        const numbers = same.flatMap(({ values }) => values.filter(Number.isFinite));
        const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
        return [label(right, 12, `${digits(high)} ${apiText("units", unit, unit)}`), label(right, 120, digits(low)), same.map((curve) => line(curve, low, high - low || 1, end))];
      })),
    shown.map(({ name, what, values }) => el("p", { class: name }, `${name === "loss" ? "─" : "╌"} ${apiText("curves", name, what)}: ${digits(values[0])} → ${digits(values.at(-1))}`)));
}

function label(right, y, text) {
  return svg("text", { x: right * 320, y, "text-anchor": right ? "end" : "start" }, text);
}

// What was no number is a gap, and a point alone a dot.
function line({ name, updates, values }, low, span, end) {
  const point = (value, i) => value === null ? "" : `${values[i - 1] == null ? "M" : "L"}${((320 * updates[i]) / end).toFixed(1)} ${(108 - (90 * (value - low)) / span).toFixed(1)}h0`;
  return svg("path", { class: name, d: values.map(point).join("") });
}

function digits(value) {
  return Number.isFinite(value) ? Number(value.toPrecision(3)) : "–";
}
