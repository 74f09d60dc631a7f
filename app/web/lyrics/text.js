// The text: the beginning that was given, and each character on the ground of its probability.

import { el, fill, setText } from "../shell/dom.js";
import { figure, t } from "../shell/language.js";
import { heat, onHeat } from "../drawing/colour.js";
import { legend } from "../drawing/legend.js";

export function lyricsText(store) {
  const given = el("span", { class: "given" });
  const characters = el("span");
  const text = el("p", { class: "lyrics", id: "lyrics" }, given, characters);
  const reading = el("p", { class: "caption reading" });
  const status = el("p", { class: "caption", role: "status" });
  const scale = legend();
  const element = el("section", { class: "panel wide" }, text, el("div", { class: "controls" }, scale.element, status), reading);

  characters.addEventListener("pointerover", (event) => {
    if (event.target.dataset.at !== undefined) store.set({ at: Number(event.target.dataset.at) });
  });
  let drawn = 0; // characters that need not be drawn again while others come
  store.watch(["wrote", "prompt", "written", "trace"], ({ wrote, prompt, written, chances, trace }) => {
    setText(given, written || wrote ? wrote : prompt);
    const all = Array.from(written);
    const first = Array.from(wrote).length;
    const known = trace?.characters.length === first + all.length && trace.characters;
    if (known || all.length < drawn) {
      fill(characters);
      drawn = 0;
    }
    for (; drawn < all.length; drawn += 1) {
      const at = first + drawn;
      characters.append(coloured(all[drawn], known ? known[at] : { probability: chances[drawn] ?? null }, at));
    }
  });
  store.watch(["trace", "at", "chances", "language"], ({ trace, at, chances }) => {
    characters.querySelectorAll(".active").forEach((each) => each.classList.remove("active"));
    characters.querySelector(`[data-at="${at}"]`)?.classList.add("active");
    setText(reading, trace?.characters[at] ? described(trace.characters[at], at) : "");
    scale.element.hidden = !trace && !chances.length;
    scale.draw("0", "1", t("legend.probability"));
  });
  store.watch(["writing", "finish", "written", "seed", "length", "language"], (state) => setText(status, said(state)));
  return element;
}

// The character is the one that was written: a token of an unknown one has no text of its own.
function coloured(text, { probability }, at) {
  if (probability === null) return el("span", { "data-at": at }, text);
  return el("span", { class: "character", "data-at": at, style: { background: heat(probability), color: onHeat(probability) } }, text === "\n" ? "⏎\n" : text);
}

export function described({ text, probability, rank, top }, at) {
  const others = (top ?? []).map((each) => `${each.text} ${figure(each.probability, 3)}`).join(" · ");
  const shown = text === "\n" ? "⏎" : text;
  if (probability === null) return t("lyrics.first", { text: shown, at });
  return t("lyrics.character", { text: shown, at, p: figure(probability, 3), rank: rank ?? "–", others });
}

function said({ writing, finish, written, seed, length }) {
  const count = Array.from(written).length;
  if (writing) return t("lyrics.writing", { count, left: Math.max(0, length - count) });
  if (!finish) return "";
  return t(finish === "stopped" ? "lyrics.stopped" : "lyrics.done", { count, seed });
}
