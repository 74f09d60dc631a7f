// What the colours mean: always 0 to 1, unless each row is divided by its largest value.

import { el, fill } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { CIVIDIS } from "./colour.js";

export function legend() {
  const bar = el("canvas", { class: "legend-bar", width: "128", height: "1", "aria-hidden": "true" });
  const context = bar.getContext("2d");
  for (let x = 0; x < 128; x += 1) {
    context.fillStyle = CIVIDIS[2 * x];
    context.fillRect(x, 0, 1, 1);
  }
  const ends = [el("span"), el("span")];
  const element = el("span", { class: "legend" }, ends[0], bar, ends[1]);

  function draw(low, high, note = "") {
    fill(ends[0], low);
    fill(ends[1], note ? `${high} ${note}` : high);
  }

  return { element, draw, weights: (row) => draw("0", "1", row ? t("legend.row") : t("legend.weight")) };
}
