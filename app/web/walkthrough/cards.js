// One card at a time: formula, numbers, why; the others as a row of names. Left and right step.

import { el, fill } from "../shell/dom.js";
import { apiText, figure, phrased, t } from "../shell/language.js";
import { say } from "../shell/live.js";
import { nameOf } from "../translate/maps.js";

export function cards(store) {
  const row = el("div", { class: "steps", role: "tablist" });
  const card = el("article", { class: "card", tabindex: "0", role: "tabpanel" });
  const element = el("section", { class: "walk", hidden: true }, row, card);

  const go = (index) => {
    const { walked } = store.get();
    const at = Math.max(0, Math.min(walked.steps.length - 1, index));
    store.set({ card: at });
    say(t("walk.said", { at: at + 1, of: walked.steps.length, name: stepName(walked.steps[at]), formula: walked.steps[at].formula ? phrased(walked.steps[at].formula) : t("walk.edited") }));
  };
  element.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !store.get().walked) return;
    event.preventDefault();
    go(store.get().card + step);
    if (event.target.getAttribute("role") === "tab") row.querySelector('[aria-selected="true"]').focus();
  });
  store.watch(["walked", "card", "language"], ({ walked, card: at }, keys) => {
    element.hidden = !walked?.steps?.length;
    if (element.hidden) return;
    row.setAttribute("aria-label", t("walk.steps"));
    if (keys.has("walked") || keys.has("language") || !row.children.length) {
      fill(row, walked.steps.map((step, i) => el("button", { role: "tab", class: "step", onclick: () => go(i) }, stepName(step))));
    }
    [...row.children].forEach((tab, i) => {
      tab.setAttribute("aria-selected", i === at);
      tab.tabIndex = i === at ? 0 : -1;
    });
    row.children[at]?.scrollIntoView({ block: "nearest", inline: "nearest" });
    fill(card, shown(walked, Math.min(at, walked.steps.length - 1), go));
  });
  return element;
}

function stepName({ name }) {
  return apiText("steps", name, name);
}

function shown(walked, at, go) {
  const step = walked.steps[at];
  const of = walked.steps.length;
  return [
    el("header", {}, el("span", { class: "caption" }, `${at + 1} / ${of}${step.part ? ` · ${apiText("parts", step.part, step.part)}` : ""}`),
      el("span", {}, el("button", { class: "link", disabled: at === 0, onclick: () => go(at - 1) }, `← ${t("walk.back")}`),
        el("button", { class: "link", disabled: at === of - 1, onclick: () => go(at + 1) }, `${t("walk.next")} →`))),
    el("h2", {}, stepName(step)),
    step.formula && el("p", { class: "formula" }, phrased(step.formula)),
    step.why && el("p", {}, apiText("reasons", step.name, step.why)),
    step.edited && el("p", { class: "note" }, t("walk.edited")),
    numbers(step, keysOf(walked, step)),
    el("p", { class: "caption" }, t("walk.shape", { shape: (step.shape ?? []).join(" × ") || "1" })),
  ];
}

// What is attended to: the source across, or else the side's own tokens.
function keysOf({ side, source_tokens: source, input_tokens: read }, { part }) {
  if (!part?.endsWith("attention")) return [];
  return part === "cross-attention" || side === "encoder" ? source : read;
}

// A matrix has a row for each key; what has one number for each key has their names above it.
function numbers({ name, values, texts }, keys) {
  const rows = Array.isArray(values[0]) ? values : [values];
  const byKey = ["scores", "masked scores", "softmax"].includes(name);
  const head = texts ?? (byKey && values.length <= keys.length ? keys.slice(0, values.length).map(nameOf) : null);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("walk.numbers") }, el("table", {},
    head && el("thead", {}, el("tr", {}, rows.length > 1 && el("td"), head.map((each) => el("th", { scope: "col" }, each)))),
    el("tbody", {}, rows.map((row, i) => el("tr", {}, rows.length > 1 && el("th", { scope: "row" }, keys[i] ? nameOf(keys[i]) : String(i)),
      row.map((value) => el("td", {}, value === null ? "−∞" : figure(value, 4))))))));
}
