// Tokens as buttons, and texts with their tokens marked. Offsets count code points.

import { el } from "../shell/dom.js";
import { hover, lock } from "./selection.js";
import { nameOf } from "./maps.js";

// A line of tokens of one side ("s" or "t"); returns their elements, in order.
export function tokenLine(store, tokens, side) {
  return tokens.map((token, i) => el("button", {
    class: token.special ? "token special" : "token",
    "data-side": side,
    "data-index": i,
    onpointerenter: () => hover(store, { [side]: i }),
    onpointerleave: () => hover(store, {}),
    onfocus: () => hover(store, { [side]: i }),
    onblur: () => hover(store, {}),
    onclick: () => lock(store, { ...other(store, side), [side]: i }),
  }, nameOf(token)));
}

function other(store, side) {
  const state = store.get();
  return side === "s" ? { t: state.t } : { s: state.s };
}

// The text cut at its tokens: [{text, index}], -1 for what lies between them.
export function pieces(text, tokens) {
  const characters = Array.from(text);
  const found = [];
  let at = 0;
  tokens.forEach((token, index) => {
    if (token.start === null || token.start < at) return;
    if (token.start > at) found.push({ text: characters.slice(at, token.start).join(""), index: -1 });
    found.push({ text: characters.slice(token.start, token.end).join(""), index });
    at = token.end;
  });
  if (at < characters.length) found.push({ text: characters.slice(at).join(""), index: -1 });
  return found;
}

// Classes of what is selected: locked, hovered, or linked to it.
export function mark(elements, index, locked, linked) {
  elements.forEach((element) => {
    const i = Number(element.dataset.index);
    element.classList.toggle("active", i === index);
    element.classList.toggle("locked", i === locked);
    element.classList.toggle("linked", linked.has(i));
    if (element.tagName === "BUTTON") element.setAttribute("aria-pressed", i === locked);
  });
}
