// What the API says about a translation beside its text: words that the model does not know, a translation that repeats
// itself, and so on. Of each kind one sentence, with the places in the source that it is about.

import { el, fill } from "../shell/dom.js";
import { grouped, languageName, t } from "../shell/language.js";
import { original } from "../shell/problem.js";
import { pairName } from "./choice.js";
import { isServed } from "./decoding.js";
import { baseOf } from "./suspecting.js";

const MOST_PLACES = 12;
const LONGEST_PLACE = 32;

// Places of the words outside the vocabulary, in order: [{start, end}] in code points of the source.
export function unknownWords({ notices }) {
  return notices.filter(({ code, start }) => code === "unknown_words" && Number.isInteger(start)).sort((a, b) => a.start - b.start);
}

export function noticesPanel(store) {
  const element = el("ul", { class: "notices", "aria-live": "polite" });
  store.watch(["notices", "suspected", "languages", "language"], (state) => {
    const codes = [...new Set(state.notices.map(({ code }) => code))];
    element.hidden = !codes.length && !state.suspected;
    fill(element, state.suspected && suspicion(store, state), codes.map((code) => item(store, state, state.notices.filter((notice) => notice.code === code))));
  });
  return element;
}

// The text is in another language than the chosen one: said, and changed by one click where the server has the pair.
function suspicion(store, state) {
  const { suspected, pair } = state;
  const [source, target] = pair.split(".");
  const codes = state.languages.map(({ code }) => code).filter((code) => baseOf(code) === baseOf(suspected));
  const wanted = baseOf(suspected) === baseOf(target) ? [`${target}.${source}`] : codes.map((code) => `${code}.${target}`);
  const better = wanted.find((each) => isServed(state, each));
  const change = () => store.set({ pair: better, model: "", detected: "", suspected: "", forced: null, s: -1, t: -1 });
  return el("li", { "data-code": "suspected" }, el("span", {}, t("notice.suspected", { language: languageName(suspected), chosen: languageName(source) })),
    better ? el("button", { class: "place", onclick: change }, pairName(better)) : el("span", {}, ` ${t("choice.oneway", { pair: pairName(wanted[0] ?? `${suspected}.${target}`) })}`));
}

function item(store, state, notices) {
  const characters = Array.from(state.text);
  const excerpt = ({ start, end }) => characters.slice(start, end).join("").trim();
  const placed = notices.filter(({ start }) => Number.isInteger(start));
  const whole = state.text.trim(); // what is about all of the text needs no place
  const places = [...new Map(placed.map((notice) => [excerpt(notice), notice]))].filter(([text]) => text && (text !== whole || notices[0].code === "unknown_words"));
  const rest = places.length - MOST_PLACES;
  const legend = notices[0].code === "unknown_words"; // marked alike in the text
  return el("li", { "data-code": notices[0].code, id: legend && "unknown-words" }, legend && el("span", { class: "unknown", "aria-hidden": "true" }, "Aa"), el("span", {}, sentence(state, notices[0])),
    places.slice(0, MOST_PLACES).map(([text, notice]) => el("button", { class: legend ? "place unknown" : "place", onclick: () => show(store, notice) }, shortened(text))),
    rest > 0 && el("span", { class: "caption" }, t("notice.more", { count: grouped(rest) })));
}

// The API's sentence is English. Its codes are known, so that other languages have sentences of their own; the list of
// unknown words is one sentence here in place of the API's one for each word.
function sentence({ language }, { code, message, models }) {
  const own = t(`notice.${code}`, { models: (models ?? []).join(" → ") });
  const known = own !== `notice.${code}`;
  return known && (language !== "en" || !message || code === "unknown_words") ? own : original(message ?? code, t("notice.other"));
}

function shortened(text) {
  const characters = Array.from(text);
  return characters.length > LONGEST_PLACE ? `${characters.slice(0, LONGEST_PLACE - 1).join("")}…` : text;
}

// Selects the place in the text field; with the tokens at hand it becomes the page's selection.
function show(store, { start, end }) {
  const { answer, text } = store.get();
  const characters = Array.from(text);
  const before = (count) => characters.slice(0, count).join("").length;
  const field = document.getElementById("source");
  field.focus();
  field.setSelectionRange(before(start), before(end));
  const marked = document.querySelector(`.mirror [data-start="${start}"]`);
  if (marked) field.scrollTop = Math.max(0, marked.offsetTop - 40);
  const token = answer?.source.text === text ? answer.source.tokens.findIndex((each) => each.start !== null && each.start < end && each.end > start) : -1;
  if (token >= 0) store.set({ s: token, t: -1, hover: null });
}
