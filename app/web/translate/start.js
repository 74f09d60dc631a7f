// Before anything is typed: what this page is, and a way into every room with an example of what is loaded.

import { el, fill } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { pairName } from "./choice.js";
import { pairsOf } from "./decoding.js";

const OTHERS = 4;
const LYRICS = ["分开", "你说", "我把灯"]; // as the lyricist of `make demo` begins; written for this project

export function lyricsExamples(models) {
  const writers = (models ?? []).filter((each) => each.kind === "lyrics");
  if (!writers.length) return [];
  return [...new Set([...writers.flatMap((each) => each.demo?.examples ?? []), ...LYRICS])].slice(0, 3);
}

export function startPanel(store) {
  const element = el("section", { class: "start" });
  store.watch(["text", "models", "examples", "pair", "language"], (state) => {
    element.hidden = Boolean(state.text.trim()) || !state.models;
    if (!element.hidden) fill(element, el("h2", {}, t("start.title")), el("p", {}, t("start.what")), el("div", { class: "doors" }, doors(store, state)));
  });
  return element;
}

function doors(store, state) {
  const { models, examples, pair } = state;
  const go = (change) => () => store.set({ forced: null, s: -1, t: -1, ...change });
  const example = examples[pair]?.[1] ?? examples[pair]?.[0];
  const others = pairsOf(models).filter((each) => each !== pair && examples[each]?.length).slice(0, OTHERS);
  const enter = (label, change) => el("button", { class: "try", onclick: go(change) }, label);
  const first = (models ?? [])[0];
  return [
    door("translate", others.map((each) => enter(`${examples[each][0]} (${pairName(each)})`, { pair: each, model: "", text: examples[each][0] }))),
    example && door("inside", [enter(example, { view: "inside", text: example })]),
    door("lyrics", lyricsExamples(models).map((each) => enter(each, { room: "lyrics", prompt: each }))),
    example && door("walkthrough", [enter(example, { room: "walkthrough", text: example })]),
    door("models", first ? models.slice(0, OTHERS).map(({ name }) => enter(name, { room: "models" })) : []),
  ];
}

function door(name, buttons) {
  const empty = !buttons.length && ["lyrics", "models"].includes(name);
  return el("div", { class: "door", "data-door": name }, el("h3", {}, t(name === "inside" ? "view.inside" : `room.${name}`)), el("p", {}, t(`start.${name}`)),
    empty ? el("p", { class: "caption" }, t(name === "lyrics" ? "lyrics.none" : "models.empty")) : buttons);
}
