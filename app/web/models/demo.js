// A model that comes with Parlance says what it knows, examples of it, and the way to others; by its `demo` of GET /models.

import { el, fill } from "../shell/dom.js";
import { grouped, t } from "../shell/language.js";
import { keep, kept } from "../shell/kept.js";

// modelOf(state) -> the name of the model in use; use(example): what a click on an example does; offered(state) -> whether
// the room has examples elsewhere just now.
export function demoBanner(store, modelOf, use, offered) {
  const element = el("aside", { class: "demo" });
  const show = (shown) => {
    keep("demo", shown ? "shown" : "hidden");
    store.set({ demoShown: shown });
  };
  store.watch(["models", "pair", "model", "writer", "language", "demoShown", "text", "writing", "detected"], (state) => {
    const model = state.models?.find((each) => each.name === modelOf(state));
    const demo = model?.demo;
    const shown = state.demoShown ?? kept("demo") !== "hidden";
    element.hidden = !demo;
    if (!demo) return;
    element.classList.toggle("folded", !shown);
    element.setAttribute("aria-label", t("demo.title"));
    const toggle = el("button", { class: "link", "aria-expanded": shown, onclick: () => {
      show(!shown);
      element.querySelector("button").focus(); // it was made anew
    } }, t(shown ? "demo.hide" : "demo.show"));
    fill(element, toggle, shown ? about(model, use, offered(state)) : el("p", {}, el("strong", {}, t("demo.title"))));
  });
  return element;
}

// bare: without its examples.
export function about(model, use, bare = false) {
  const { demo } = model;
  const examples = bare ? [] : demo.examples ?? [];
  return [
    el("p", {}, el("strong", {}, `${t("demo.title")}${t("demo.stop")}`), summaryOf(model)),
    examples.length > 0 && el("p", { class: "examples" }, el("span", { class: "caption" }, t("translate.try")),
      examples.map((each) => el("button", { class: "try", onclick: () => use(each) }, each))),
    demo.way_out && el("p", {}, coded(demo.way_out)),
  ];
}

// The API's sentence is English, and its numbers are in fields of their own.
function summaryOf({ demo, language_pairs: [pair] }) {
  if (document.documentElement.lang === "en") return demo.summary;
  return t(pair ? "demo.words" : "demo.songs", { words: grouped(demo.words), patterns: grouped(demo.patterns) });
}

// A command stands between backticks, or at the end of the sentence.
function coded(sentence) {
  const [command] = /`([^`]+)`|((?:make|parlance|python) .+)$/.exec(sentence) ?? [];
  if (command && document.documentElement.lang !== "en") return [t("demo.out"), " ", el("code", {}, command.replaceAll("`", ""))];
  return sentence.split(/`([^`]+)`|((?:make|parlance|python) .+)$/).filter(Boolean).map((part) => (
    /^(make|parlance|python) /.test(part) ? el("code", {}, part) : part));
}
