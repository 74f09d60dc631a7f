// What to write, and how. The seed shown is the one that writes this text again.

import { el, fill, setText } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { told } from "../shell/problem.js";
import { stop, write, writerOf } from "./writing.js";

export function lyricsControls(store) {
  const names = Object.fromEntries(["writer", "prompt", "temperature", "topK", "length", "seed"].map((key) => [key, el("span")]));
  const field = (key, input) => el("label", { class: "field" }, names[key], input);
  const text = (key, options) => el("input", { id: key, ...options, oninput: (event) => store.set({ [key]: event.target.value }) });
  const number = (key, options) => el("input", {
    type: "number", id: key, required: true, ...options, oninput: (event) => event.target.checkValidity() && store.set({ [key]: event.target.valueAsNumber }),
  });
  const inputs = {
    prompt: text("prompt", { autocomplete: "off" }),
    temperature: number("temperature", { min: 0, max: 10, step: 0.05 }),
    topK: number("topK", { min: 0, max: 1000000, step: 1 }),
    length: number("length", { min: 1, max: 1024, step: 1 }),
    seed: text("seed", { inputmode: "numeric", pattern: "\\d*", maxlength: 15, size: 15, autocomplete: "off" }),
  };
  const writer = el("select", { id: "writer", onchange: () => store.set({ writer: writer.value }) });
  const fresh = el("button", { class: "link", onclick: () => store.set({ seed: "" }) }, "⟳");
  const go = el("button", { class: "action", id: "write", onclick: () => (store.get().writing ? stop() : write(store)) });
  const problem = el("p", { class: "problem", role: "alert" });
  inputs.prompt.addEventListener("keydown", (event) => event.key === "Enter" && !store.get().writing && write(store));

  store.watch(["prompt", "temperature", "topK", "length", "seed"], (state) => {
    for (const [key, input] of Object.entries(inputs)) {
      if (document.activeElement !== input && input.value !== String(state[key])) input.value = state[key];
    }
  });
  store.watch(["models", "writer", "language"], (state) => {
    const found = (state.models ?? []).filter((each) => each.kind === "lyrics").map((each) => each.name);
    fill(writer, found.map((name) => el("option", { value: name }, name)));
    writer.value = writerOf(state);
    for (const key of Object.keys(names)) setText(names[key], t(`lyrics.${key}`));
    inputs.prompt.placeholder = t("lyrics.begin");
    inputs.seed.placeholder = t("lyrics.drawn");
    fresh.setAttribute("aria-label", t("lyrics.fresh"));
    fresh.title = t("lyrics.fresh");
  });
  store.watch(["writing", "language", "prompt", "models"], (state) => {
    setText(go, t(state.writing ? "lyrics.stop" : "lyrics.write"));
    go.disabled = !state.writing && (!state.prompt || !writerOf(state));
  });
  store.watch(["lyricsProblem", "models", "language"], (state) => {
    fill(problem, state.lyricsProblem ? told(state.lyricsProblem) : state.models && !writerOf(state) && t("lyrics.none"));
  });
  return el("div", { class: "top" }, el("div", { class: "controls" }, field("writer", writer), field("prompt", inputs.prompt), field("temperature", inputs.temperature),
    field("topK", inputs.topK), field("length", inputs.length), field("seed", inputs.seed), fresh, go), problem);
}
