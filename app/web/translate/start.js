// Before anything is typed: what this page is, and a way into every room with an example of what is loaded.

import { el, fill } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { pairName } from "./choice.js";
import { examplesOf } from "./examples.js";
import { pairsOf } from "./decoding.js";

const OTHERS = 4;

// Only a demo says which beginnings its characters are enough for.
export function lyricsExamples(models) {
  return [...new Set((models ?? []).filter((each) => each.kind === "lyrics").flatMap((each) => each.demo?.examples ?? []))].slice(0, 3);
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
  const own = examplesOf(examples, pair);
  const example = own[1] ?? own[0];
  const others = pairsOf(models).filter((each) => each !== pair && examples[each]?.length).slice(0, OTHERS);
  const writes = models.some(({ kind }) => kind === "lyrics");
  const names = models.slice(0, OTHERS).map(({ name }) => name);
  const door = (name, room, change, tries, missing) => el("div", { class: "door", "data-door": name },
    el("h3", {}, el("button", { class: "link", onclick: enter(store, change) }, t(room))),
    el("p", {}, t(`start.${name}`)),
    missing ? el("p", { class: "caption" }, missing) : tries.map(([label, more]) => el("button", { class: "try", onclick: enter(store, { ...change, ...more }) }, label)));
  return [
    door("translate", "room.translate", { view: "translate" }, others.map((each) => [`${examples[each][0]} (${pairName(each)})`, { pair: each, model: "", text: examples[each][0] }])),
    door("inside", "view.inside", { view: "inside" }, example ? [[example, { text: example }]] : []),
    door("lyrics", "room.lyrics", { room: "lyrics" }, lyricsExamples(models).map((each) => [each, { prompt: each }]), !writes && t("lyrics.none")),
    door("walkthrough", "room.walkthrough", { room: "walkthrough" }, example ? [[example, { text: example }]] : []),
    door("models", "room.models", { room: "models" }, names.map((name) => [name, {}]), !names.length && t("models.empty")),
  ];
}

function enter(store, change) {
  return () => {
    store.set({ forced: null, s: -1, t: -1, ...change });
    if (!change.text && change.view) document.getElementById("source").focus();
  };
}
