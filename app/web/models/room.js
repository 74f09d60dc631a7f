// What is loaded: a card each; and for those who may change that, the ways to do it.

import { asked, get } from "../shell/api.js";
import { el, fill, setText } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { problemOf, told } from "../shell/problem.js";
import { offered, pairsOf } from "../translate/decoding.js";
import { modelCard } from "./card.js";
import { importForm } from "./importing.js";

export function modelsRoom(store) {
  const key = el("input", { type: "password", id: "key", autocomplete: "off" });
  const use = el("button", { class: "link" });
  const unlock = el("form", { class: "controls", onsubmit: (event) => {
    event.preventDefault();
    if (key.value) unlocked(store, key.value, problem);
    else key.focus();
  } });
  const folder = el("input", { id: "folder", autocomplete: "off" });
  const load = el("button", { class: "link", onclick: () => (folder.value.trim() ? change(folder.value.trim(), "load") : folder.focus()) });
  const [name, other] = [el("span"), el("span")];
  const loading = el("div", { class: "controls" }, el("label", { class: "field" }, other, folder), load);
  const problem = el("p", { class: "problem", role: "alert" });
  const list = el("div", { class: "models" });
  unlock.append(el("label", { class: "field" }, name, key), use);
  const tryOut = (model, example) => {
    if (model.kind === "lyrics") store.set({ room: "lyrics", writer: model.name, prompt: example });
    else store.set({ room: "translate", model: model.name, pair: pairsOf([model])[0], text: example, forced: null, s: -1, t: -1 });
  };
  const change = (model, verb) => changed(store, model, verb, key.value, problem);
  const imports = importForm(store, key, () => refresh(store));
  store.watch(["models", "served", "curves", "settings", "language"], ({ models, served, curves, settings }) => {
    setText(name, t("models.key"));
    setText(use, t("key.use"));
    setText(other, t("models.folder"));
    setText(load, t("models.load"));
    const may = settings?.modelChanges === "allowed"; // what the server would refuse is not offered
    unlock.hidden = settings?.modelChanges !== "key";
    loading.hidden = imports.hidden = !may;
    const cards = models?.map((model) => modelCard(model, models, served?.[model.name], curves?.find((each) => each?.model === model.name), may && change, tryOut));
    fill(list, cards?.length === 0 ? t("models.empty") : cards);
  });
  store.watch(["room"], ({ room }) => room === "models" && refresh(store));
  return el("div", { class: "room" }, list, unlock, loading, imports, problem);
}

async function refresh(store) {
  try {
    const [[models, languages], metrics] = await Promise.all([offered(), fetch("metrics").then((answer) => answer.text())]);
    const curves = await Promise.all(models.map(({ name }) => get(`models/${encodeURIComponent(name)}/curves`).catch(() => 0))); // it may be gone by now
    store.set({ models, languages, served: counts(metrics), curves });
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

// The server says whether the key is one of the scope admin.
async function unlocked(store, key, element) {
  fill(element);
  try {
    const settings = await (await asked("frontend/settings", { headers: { "X-Api-Key": key } })).json();
    store.set({ settings });
    if (settings.modelChanges !== "allowed") fill(element, t("models.noAdmin"));
  } catch (error) {
    fill(element, told(problemOf(error)));
  }
}

async function changed(store, model, verb, key, element) {
  fill(element);
  try {
    await asked(`models/${encodeURIComponent(model)}/${verb}`, { method: "POST", headers: key && { "X-Api-Key": key } });
    await refresh(store);
  } catch (error) {
    fill(element, told(problemOf(error)));
  }
}
