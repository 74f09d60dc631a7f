// One card at a time: formula, numbers, why; the others as a row of names. Left and right step.

import { el, fill } from "../shell/dom.js";
import { figure, t } from "../shell/language.js";
import { say } from "../shell/live.js";

export function cards(store) {
  const row = el("div", { class: "steps", role: "tablist" });
  const card = el("article", { class: "card", tabindex: "0", role: "tabpanel" });
  const element = el("section", { class: "walk", hidden: true }, row, card);

  const go = (index) => {
    const { walked } = store.get();
    const at = Math.max(0, Math.min(walked.steps.length - 1, index));
    store.set({ card: at });
    say(t("walk.said", { at: at + 1, of: walked.steps.length, name: walked.steps[at].name, formula: walked.steps[at].formula }));
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
    if (keys.has("walked") || !row.children.length) {
      fill(row, walked.steps.map((step, i) => el("button", { type: "button", role: "tab", class: "step", onclick: () => go(i) }, step.name)));
    }
    [...row.children].forEach((tab, i) => {
      tab.setAttribute("aria-selected", i === at);
      tab.tabIndex = i === at ? 0 : -1;
    });
    row.children[at]?.scrollIntoView({ block: "nearest", inline: "nearest" });
    fill(card, shown(walked.steps[at] ?? walked.steps[0], at, walked.steps.length, go));
  });
  return element;
}

function shown(step, at, of, go) {
  return [
    el("header", {}, el("span", { class: "caption" }, `${at + 1} / ${of}${step.part ? ` · ${step.part}` : ""}`),
      el("span", {}, el("button", { type: "button", class: "link", disabled: at === 0, onclick: () => go(at - 1) }, `← ${t("walk.back")}`),
        el("button", { type: "button", class: "link", disabled: at === of - 1, onclick: () => go(at + 1) }, `${t("walk.next")} →`))),
    el("h2", {}, step.name),
    el("p", { class: "formula" }, step.formula),
    step.why && el("p", {}, step.why),
    numbers(step),
    el("p", { class: "caption" }, t("walk.shape", { shape: (step.shape ?? []).join(" × ") || "1" })),
  ];
}

function numbers({ values, indices, tokens, rows: names }) {
  if (values === undefined || values === null) return null;
  const rows = Array.isArray(values) ? (Array.isArray(values[0]) ? values : [values]) : [[values]];
  const head = tokens ?? indices;
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("walk.numbers") }, el("table", {},
    head && el("thead", {}, el("tr", {}, rows.length > 1 && el("td"), head.map((each) => el("th", { scope: "col" }, typeof each === "object" ? each.text : String(each))))),
    el("tbody", {}, rows.map((row, i) => el("tr", {}, rows.length > 1 && el("th", { scope: "row" }, String(names?.[i] ?? i)),
      row.map((value) => el("td", {}, value === null ? "−∞" : figure(value, 4))))))));
}
