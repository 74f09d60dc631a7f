// A demo says that it is one: what it knows, examples of it, and the way to a real model; by its `demo` of GET /models.

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
  store.watch(["models", "pair", "model", "writer", "language", "demoShown", "text", "writing"], (state) => {
    const demo = state.models?.find((each) => each.name === modelOf(state))?.demo;
    const shown = state.demoShown ?? kept("demo") !== "hidden";
    element.hidden = !demo;
    if (!demo) return;
    element.classList.toggle("folded", !shown);
    element.setAttribute("aria-label", t("demo.title"));
    const toggle = el("button", { class: "link", "aria-expanded": shown, onclick: () => {
      show(!shown);
      element.querySelector("button").focus(); // it was made anew
    } }, t(shown ? "demo.hide" : "demo.show"));
    fill(element, el("p", { class: "demo-title" }, el("strong", {}, t("demo.title")), toggle), shown && about(offered(state) ? { ...demo, examples: [] } : demo, use));
  });
  return element;
}

export function about(demo, use) {
  const size = [demo.words && t("demo.words", { count: grouped(demo.words) }), demo.patterns && t("demo.patterns", { count: grouped(demo.patterns) })];
  const examples = demo.examples ?? [];
  return [
    el("p", {}, demo.summary, size.some(Boolean) && el("span", { class: "caption" }, ` ${size.filter(Boolean).join(" · ")}`)),
    examples.length > 0 && el("p", { class: "examples" }, el("span", { class: "caption" }, t("translate.try")),
      examples.map((each) => el("button", { class: "try", onclick: () => use(each) }, each))),
    demo.way_out && el("p", { class: "way" }, coded(demo.way_out)),
  ];
}

// `commands` between backticks.
function coded(sentence) {
  return sentence.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
}
