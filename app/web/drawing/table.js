// The same numbers as a table, for those who would rather read them.

import { el, fill } from "../shell/dom.js";
import { t } from "../shell/language.js";

const MOST_CELLS = 4096;

// Filled when it is opened, and again when `matrix()` has changed meanwhile.
export function tableFallback(matrix) {
  const body = el("div", { class: "scroll", tabindex: "0", role: "region" });
  const summary = el("summary");
  const element = el("details", { class: "numbers" }, summary, body);
  element.addEventListener("toggle", () => draw());

  function draw() {
    summary.textContent = t("table.open");
    const shown = matrix();
    if (!element.open || !shown) return;
    body.setAttribute("aria-label", shown.label);
    const { rows, columns, values } = shown;
    if (rows.length * columns.length > MOST_CELLS) {
      fill(body, el("p", { class: "note" }, t("table.large", { cells: rows.length * columns.length, most: MOST_CELLS })));
      return;
    }
    fill(body, el("table", {},
      el("caption", {}, shown.label),
      el("thead", {}, el("tr", {}, el("td"), columns.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rows.map((name, row) => el("tr", {},
        el("th", { scope: "row" }, name),
        columns.map((_, column) => el("td", {}, values[row * columns.length + column].toFixed(4))))))));
  }

  return { element, draw };
}
