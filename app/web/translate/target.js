// The translation, as it comes; when it has been looked into, its words are the tokens that can be chosen.

import { el, fill, setText } from "../shell/dom.js";
import { figure, grouped, t } from "../shell/language.js";
import { say } from "../shell/live.js";
import { goOn, stop } from "./asking.js";
import { copyText } from "./files.js";
import { active, hover, linksOf, lock } from "./selection.js";
import { speech } from "./speech.js";
import { mark, pieces } from "./tokens.js";

export function targetPane(store) {
  const label = el("p", { class: "caption" });
  const text = el("p", { class: "output", id: "target", "aria-live": "polite", tabindex: "-1" });
  const below = el("p", { class: "caption" });
  const other = el("p", { class: "note" });
  const element = el("section", { class: "pane" }, label, text, el("div", { class: "tools below" }, copyButton(store), speech(store), below), parts(store), other);

  store.watch(["target", "answer", "phase", "view"], (state) => {
    const busy = state.phase === "streaming";
    text.classList.toggle("streaming", busy);
    text.setAttribute("aria-busy", busy);
    fill(text, same(state) ? words(store, state.answer) : document.createTextNode(state.target));
  });
  store.watch(["target", "answer", "phase", "view", "language"], (state) => {
    const whole = state.answer && state.phase === "done" && state.view === "inside" && !same(state);
    setText(other, whole ? t("translate.whole", { text: state.answer.target.text }) : "");
  });
  store.watch(["answer", "phase", "target", "hover", "s", "t", "view"], (state) => {
    const linked = new Set((linksOf(state.answer ?? { source: {}, target: {} }) ?? [])
      .filter((link) => link.s === active(state).s).map((link) => link.t));
    mark(text.querySelectorAll("[data-index]"), active(state).t, state.t, linked);
  });
  store.watch(["pair"], ({ pair }) => { text.lang = pair.split(".")[1] ?? ""; });
  store.watch(["phase", "forced", "timing", "language", "view"], (state) => {
    label.textContent = t("translate.target");
    fill(below, status(store, state));
  });
  return element;
}

// POST /attention takes a text as one sentence, POST /translate sentence by sentence: then they differ.
function same({ answer, phase, target, view }) {
  return view === "inside" && answer && phase === "done" && answer.target.text.trim() === target.trim();
}

function words(store, answer) {
  return pieces(answer.target.text, answer.target.output_tokens).map(({ text, index }) => (index < 0 ? document.createTextNode(text) : el("span", {
    class: "word",
    "data-index": index,
    onpointerenter: () => hover(store, { t: index }),
    onpointerleave: () => hover(store, {}),
    onclick: () => lock(store, { s: store.get().s, t: index }),
  }, text)));
}

function copyButton(store) {
  const button = el("button", { class: "link", id: "copy" });
  let timer = 0;
  button.addEventListener("click", async () => {
    const copied = await copyText(store.get().target);
    setText(button, t(copied ? "translate.copied" : "translate.refused"));
    say(button.textContent);
    clearTimeout(timer);
    timer = setTimeout(() => setText(button, t("translate.copy")), 2000);
  });
  store.watch(["target", "phase", "language"], ({ target, phase }) => {
    setText(button, t("translate.copy"));
    button.hidden = !target.trim() || phase === "streaming";
  });
  return button;
}

// Of a long text: how far it is, and a way to stop and to go on.
function parts(store) {
  const bar = el("progress", { max: 1, value: 0 });
  const said = el("span", { class: "caption" });
  const button = el("button", { class: "link", onclick: () => (store.get().phase === "streaming" ? stop : goOn)(store) });
  const element = el("p", { class: "parts" }, bar, said, button);
  store.watch(["progress", "phase", "language"], ({ progress, phase }) => {
    element.hidden = !progress || (progress.done >= progress.total && phase !== "streaming");
    if (element.hidden) return;
    const { done, total } = progress;
    bar.value = done / total;
    bar.setAttribute("aria-label", t("translate.target"));
    setText(said, t(phase === "streaming" ? "parts.done" : "parts.stopped", { done: grouped(done), total: grouped(total) }));
    setText(button, t(phase === "streaming" ? "parts.stop" : "parts.on"));
  });
  return element;
}

function status(store, { forced, phase, timing, view }) {
  const parts = [];
  if (view === "inside" && phase === "done" && timing?.total_ms) parts.push(t("translate.took", { ms: figure(timing.total_ms, 0) }));
  if (forced === null) return parts;
  const free = () => store.set({ forced: null, t: -1 });
  parts.push(el("span", {}, ` ${t("forced.begins", { text: forced })} `));
  parts.push(el("button", { class: "link", onclick: free }, t("forced.free")));
  return parts;
}
