// The note that attention is no explanation, beside what is nearer to one: the translation's log-probability with each
// word of the source left out.

import { post } from "../shell/api.js";
import { el, fill, setText } from "../shell/dom.js";
import { figure, signed, t } from "../shell/language.js";
import { problemOf, told } from "../shell/problem.js";
import { translatorOf } from "./decoding.js";

const AT_ONCE = 4;
const MOST_WORDS = 48;

export function occlusionPanel(store) {
  const title = el("h2");
  const note = el("p", { class: "note" });
  const button = el("button", { class: "action" });
  const body = el("div", { class: "occlusion" });
  const element = el("section", { class: "panel wide" }, title, note, button, body);
  let running = null;

  store.watch(["answer", "features", "language"], ({ answer, features }, keys) => {
    setText(title, t("occlusion.title"));
    setText(note, t("occlusion.note"));
    setText(button, t("occlusion.measure"));
    button.hidden = !answer || !features?.score || !answer.target.text.trim();
    if (keys.has("answer")) {
      running?.abort();
      fill(body);
    }
  });
  button.addEventListener("click", async () => {
    running?.abort();
    running = new AbortController();
    try {
      await measure(store.get(), body, running.signal);
    } catch (error) {
      const problem = problemOf(error);
      if (problem) fill(body, el("p", { class: "problem" }, told(problem)));
    }
  });
  return element;
}

async function measure(state, body, signal) {
  const { answer } = state;
  const translator = translatorOf(state);
  const words = wordsOf(answer.source).slice(0, MOST_WORDS);
  const score = async (source) => (await post("score", { source, target: answer.target.text, ...translator }, signal)).logprob;
  const whole = await score(answer.source.text);
  const changes = new Array(words.length).fill(null);
  let next = 0;
  const work = async () => {
    while (next < words.length) {
      const i = next;
      next += 1;
      changes[i] = words[i].rest.trim() ? (await score(words[i].rest)) - whole : null;
      draw(body, words, changes);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  draw(body, words, changes);
}

// The source's words, and the text without each: tokens that the API gives the same word, or else each token.
function wordsOf({ text, tokens }) {
  const characters = Array.from(text);
  const spans = [];
  tokens.filter((token) => token.start !== null && token.end > token.start).forEach((token) => {
    const last = spans.at(-1);
    const joined = last && (token.word === undefined || token.word === null ? !token.piece.startsWith("▁") && last.end === token.start : token.word === last.word);
    if (joined) last.end = token.end;
    else spans.push({ start: token.start, end: token.end, word: token.word });
  });
  return spans.map(({ start, end }) => ({
    text: characters.slice(start, end).join(""),
    rest: [...characters.slice(0, start), ...characters.slice(end)].join("").replace(/ {2,}/g, " ").trim(),
  }));
}

function draw(body, words, changes) {
  const largest = Math.max(1e-9, ...changes.map((change) => Math.abs(change ?? 0)));
  fill(body, el("ul", { class: "bars" }, words.map((word, i) => el("li", {},
    el("span", { class: "column", style: { height: `${(56 * Math.abs(changes[i] ?? 0)) / largest}px` }, "aria-hidden": "true" }),
    el("span", {}, word.text),
    el("span", { class: "caption" }, changes[i] === null ? "…" : signed(changes[i]))))),
  el("p", { class: "caption" }, t("occlusion.unit", { largest: figure(largest) })));
}
