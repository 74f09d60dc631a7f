// What is loaded: a card each.

import { asked, get } from "../shell/api.js";
import { el, fill, setText } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { problemOf } from "../shell/problem.js";
import { pairsOf } from "../translate/decoding.js";
import { modelCard } from "./card.js";
import { importForm } from "./importing.js";

export function modelsRoom(store) {
  const key = el("input", { type: "password", id: "key", autocomplete: "off" });
  const folder = el("input", { id: "folder", autocomplete: "off" });
  const load = el("button", { class: "link", onclick: () => (folder.value.trim() ? change(folder.value.trim(), "load") : folder.focus()) });
  const [name, other] = [el("span"), el("span")];
  const problem = el("p", { class: "problem", role: "alert" });
  const list = el("div", { class: "models" });
  const use = (model, example) => {
    if (model.kind === "lyrics") store.set({ room: "lyrics", writer: model.name, prompt: example });
    else store.set({ room: "translate", model: model.name, pair: pairsOf([model])[0], text: example, forced: null, s: -1, t: -1 });
  };
  const change = (model, verb) => changed(store, model, verb, key.value, problem);
  store.watch(["models", "served", "curves", "language"], ({ models, served, curves }) => {
    setText(name, t("models.key"));
    setText(other, t("models.folder"));
    setText(load, t("models.load"));
    const cards = models?.map((model) => modelCard(model, served?.[model.name], curves?.find((each) => each?.model === model.name), change, use));
    fill(list, cards?.length === 0 ? t("models.empty") : cards);
  });
  const imports = importForm(store, key, () => refresh(store));
  store.watch(["room"], ({ room }) => room === "models" && refresh(store));
  return el("div", { class: "room" }, list, el("div", { class: "controls" }, el("label", { class: "field" }, name, key), el("label", { class: "field" }, other, folder), load), imports, problem);
}

async function refresh(store) {
  try {
    const [models, metrics] = await Promise.all([get("models"), fetch("metrics").then((answer) => answer.text())]);
    const curves = await Promise.all(models.map(({ name }) => get(`models/${encodeURIComponent(name)}/curves`).catch(() => 0))); // it may be gone by now
    store.set({ models, served: counts(metrics), curves });
  } catch {
    // what is shown stays
  }
}

// Tokens written by each model, summed over its devices.
function counts(text) {
  const found = {};
  for (const [, name, value] of text.matchAll(/^parlance:generation_tokens_total\{[^}]*model_name="([^"]*)"[^}]*\} (\S+)$/gm)) {
    found[name] = (found[name] ?? 0) + Number(value);
  }
  return found;
}

async function changed(store, model, verb, key, element) {
  fill(element);
  try {
    await asked(`models/${encodeURIComponent(model)}/${verb}`, { method: "POST", headers: key && { "X-Api-Key": key } });
    await refresh(store);
  } catch (error) {
    fill(element, problemOf(error)?.sentence);
  }
}
