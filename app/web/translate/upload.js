// Files: dropped anywhere on the room or chosen, translated by the server, and offered under their own names.

import { aborted, asked } from "../shell/api.js";
import { el, fill, setText } from "../shell/dom.js";
import { grouped, t } from "../shell/language.js";
import { say } from "../shell/live.js";
import { problemOf, told } from "../shell/problem.js";

const AT_ONCE = 3; // a browser opens six connections to a server, and typed texts need theirs

// button: to stand below the text field. list: what became of each file. target(element): files may be dropped on it.
export function uploads(store) {
  const input = el("input", { type: "file", multiple: true, class: "unseen", tabindex: "-1", "aria-hidden": "true" });
  const choose = el("button", { class: "link", id: "choose", onclick: () => input.click() });
  const types = el("span", { class: "caption", id: "types" });
  const button = el("span", { class: "tools", hidden: true }, choose, types, input);
  const list = el("ul", { class: "uploads" });
  const add = (files) => [...files].forEach((file) => list.append(upload(store, file)));
  input.addEventListener("change", () => {
    add(input.files);
    input.value = "";
  });
  store.watch(["settings", "language", "text"], ({ settings, text }) => {
    const known = settings?.filesTranslation ? settings.supportedFilesFormat : [];
    button.hidden = !known.length;
    input.accept = known.join(",");
    setText(choose, t("file.choose"));
    choose.title = known.join(" ");
    setText(types, text ? "" : known.join(" "));
  });
  return { button, list, target: (element) => droppable(store, element, add) };
}

function droppable(store, element, add) {
  const veil = el("p", { class: "veil", hidden: true });
  const here = (event) => event.dataTransfer?.types.includes("Files") && store.get().settings?.filesTranslation !== false;
  element.append(veil);
  element.addEventListener("dragover", (event) => {
    if (!here(event)) return;
    event.preventDefault();
    const { settings } = store.get();
    setText(veil, t("file.drop", { types: (settings?.supportedFilesFormat ?? []).join(", ") }));
    veil.hidden = false;
  });
  element.addEventListener("dragleave", (event) => {
    if (!element.contains(event.relatedTarget)) veil.hidden = true;
  });
  element.addEventListener("drop", (event) => {
    if (!here(event)) return;
    event.preventDefault();
    veil.hidden = true;
    add(event.dataTransfer.files);
  });
}

function upload(store, file) {
  const running = new AbortController();
  const bar = el("progress", { "aria-label": file.name });
  const said = el("span", { class: "caption" });
  const problem = el("span", { class: "caption problem", role: "alert" });
  const drop = el("button", { class: "link", onclick: () => {
    running.abort();
    stop();
    URL.revokeObjectURL(link.href);
    element.remove();
  } });
  const { pair, model, settings } = store.get(); // another choice is one for later files
  const name = named(file.name, pair);
  const link = el("a", { class: "action", hidden: true, download: name });
  const element = el("li", {}, el("span", { class: "name" }, file.name), bar, said, problem, link, drop);
  let state = {};
  const tell = (next) => {
    state = next;
    setText(said, state.key ? t(state.key, state.values) : "");
    if (state.problem) fill(problem, el("span", { class: "unseen" }, `${file.name}: `), state.problem());
    setText(drop, t(state.ended ? "file.remove" : "file.cancel"));
    drop.setAttribute("aria-label", `${drop.textContent}: ${file.name}`);
    setText(link, t("file.save", { name }));
    bar.hidden = Boolean(state.ended);
  };
  const supported = settings?.supportedFilesFormat ?? [];
  if (!pair || !settings) tell({ ended: true, problem: () => t("models.none") });
  else if (!supported.some((ending) => file.name.toLowerCase().endsWith(ending))) tell({ ended: true, problem: () => t("file.unsupported", { types: supported.join(", ") }) });
  else work({ pair, model, file }, running.signal, tell, link);
  const stop = store.watch(["language"], () => tell(state));
  return element;
}

async function work(request, signal, tell, link) {
  tell({ key: "file.waiting" });
  await turn();
  const begun = Date.now();
  const clock = () => tell({ key: "file.working", values: { seconds: grouped(Math.round((Date.now() - begun) / 1000)) } });
  const timer = setInterval(clock, 1000);
  clock();
  try {
    const blob = await translateFile(request, signal);
    link.href = URL.createObjectURL(blob);
    link.hidden = false;
    tell({ ended: true });
    say(t("file.done", { name: link.download }));
  } catch (error) {
    if (!aborted(error) && !signal.aborted) tell({ ended: true, problem: () => told(problemOf(error)) });
  } finally {
    clearInterval(timer);
    endTurn();
  }
}

const waiting = []; // what starts each file that waits
let taken = 0;

function turn() {
  if (taken === AT_ONCE) return new Promise((start) => waiting.push(start));
  taken += 1;
  return null;
}

function endTurn() {
  if (waiting.length) waiting.shift()();
  else taken -= 1;
}

// The translated file as a Blob.
async function translateFile({ pair, model, file }, signal) {
  const [source, target] = pair.split(".");
  const form = new FormData();
  Object.entries({ source, target, model }).forEach(([name, value]) => value && form.append(name, value));
  form.append("file", file);
  const { translatedFileUrl } = await (await asked("translate_file", { method: "POST", body: form, signal })).json();
  // Its name alone: the address may be that of a proxy, and this page asks nobody but its own server.
  const name = new URL(translatedFileUrl, location.href).pathname.split("/").pop();
  return (await asked(`download_file/${name}`, { signal })).blob();
}

// letter.docx becomes letter.en.docx.
function named(name, pair) {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? `${name.slice(0, dot)}.${pair.split(".")[1]}${name.slice(dot)}` : name;
}
