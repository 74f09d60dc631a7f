// Source tokens above, target tokens below, and between them how they are aligned. Side by side where it is narrow.

import { el, fill } from "../shell/dom.js";
import { apiText, t } from "../shell/language.js";
import { ribbons } from "../drawing/ribbons.js";
import { matrixOf } from "./maps.js";
import { active, activeHead, hover, linksOf, lock } from "./selection.js";
import { mark, tokenLine } from "./tokens.js";

const LEAST = 0.05;

export function alignmentPanel(store) {
  const from = el("div", { class: "line", role: "group" });
  const to = el("div", { class: "line", role: "group" });
  const box = el("div", { class: "lines" }, from, to);
  const bands = ribbons(box);
  const band = (act) => ({ target: { dataset } }) => dataset.from && act(store, { s: Number(dataset.from), t: Number(dataset.to) });
  bands.element.addEventListener("pointerover", band(hover));
  bands.element.addEventListener("pointerout", () => hover(store, {}));
  bands.element.addEventListener("click", band(lock));
  const caption = el("p", { class: "caption" });
  const element = el("section", { class: "panel wide alignment" }, el("h2"), box, caption);
  let tokens = { from: [], to: [] };

  store.watch(["answer"], ({ answer }) => {
    tokens = answer
      ? { from: tokenLine(store, answer.source.tokens, "s"), to: tokenLine(store, answer.target.output_tokens, "t") }
      : { from: [], to: [] };
    fill(from, tokens.from);
    fill(to, tokens.to);
  });
  store.watch(["answer", "hover", "s", "t", "hoverHead", "layer", "head", "painted", "language"], (state) => {
    element.querySelector("h2").textContent = t("alignment.title");
    from.setAttribute("aria-label", t("translate.source"));
    to.setAttribute("aria-label", t("translate.target"));
    if (!state.answer) return fill(caption);
    const links = shownLinks(state);
    const { s, t: step } = active(state);
    const marked = (link) => (s >= 0 && link.s === s) || (step >= 0 && link.t === step);
    const across = getComputedStyle(box).flexDirection === "row";
    bands.draw(tokens.from, tokens.to, links.map((link) => ({ from: link.s, to: link.t, weight: link.weight, marked: marked(link) })), across);
    mark(tokens.from, s, state.s, new Set(links.filter((link) => link.t === step).map((link) => link.s)));
    mark(tokens.to, step, state.t, new Set(links.filter((link) => link.s === s).map((link) => link.t)));
    caption.textContent = explained(state);
    return undefined;
  });
  return element;
}

// The API's alignment; under a head, or where there is none, the weights of what the map shows.
function shownLinks(state) {
  const { layer, head } = activeHead(state);
  const given = layer < 0 && head < 0 ? linksOf(state.answer) : null;
  if (given) return given;
  const map = state.maps.cross;
  if (!map) return [];
  const values = matrixOf(map, layer, head);
  return Array.from(values, (weight, i) => ({ s: i % map.columns, t: Math.floor(i / map.columns), weight }))
    .filter((link) => link.weight >= LEAST);
}

function explained(state) {
  const { layer, head } = activeHead(state);
  const { alignment } = state.answer;
  if (alignment && layer < 0 && head < 0) {
    return t("alignment.given", { heads: alignment.heads.map((each) => each.join(".")).join(" "), convention: apiText("conventions", alignment.convention, alignment.convention) });
  }
  return t("alignment.weights", { what: headName(layer, head), least: LEAST });
}

// Counted from 0, as in the API and in every file that is exported.
export function headName(layer, head) {
  if (layer < 0 && head < 0) return t("head.all");
  if (head < 0) return t("head.layer", { layer });
  if (layer < 0) return t("head.across", { head });
  return t("head.one", { layer, head });
}
