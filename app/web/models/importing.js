// A form that imports a model from the Hugging Face Hub, and how far each import is.

import { asked } from "../shell/api.js";
import { el, fill, setText } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { original, problemOf, told } from "../shell/problem.js";

const EVERY_MS = 500;
const AGAIN_MS = 2000; // after a failure: the import goes on without this page

// key: the field with the admin key. loaded(): a model has come.
export function importForm(store, key, loaded) {
  const model = el("input", { id: "hub", autocomplete: "off", autocapitalize: "off", spellcheck: "false", placeholder: "de-en" });
  const name = el("span");
  const button = el("button", { class: "link" });
  const problem = el("p", { class: "problem", role: "alert" });
  const list = el("div", { class: "imports" });
  const rows = new Map();
  let timer;
  let running = false;
  let lost = false; // the sentence that is shown is about the list, not about what the user did

  const ask = async (path, method) => {
    try {
      return await (await asked(`models/${path}`, { method, headers: key.value && { "X-Api-Key": key.value } })).json();
    } catch (error) {
      fill(problem, told(problemOf(error)));
    }
  };
  const act = async (path, method) => {
    fill(problem);
    if (await ask(path, method)) await follow();
  };
  const show = (each) => {
    if (!rows.has(each.id)) {
      rows.set(each.id, row(() => act(`imports/${each.id}`, "DELETE")));
      list.prepend(rows.get(each.id).element);
    }
    return rows.get(each.id).show(each);
  };
  const follow = async () => {
    clearTimeout(timer);
    const imports = await ask("imports", "GET");
    if (imports && lost) fill(problem);
    lost = !imports;
    if (imports?.reverse().map(show).some((came) => came)) loaded();
    running = imports ? imports.some(({ state }) => state === "running") : running;
    if (running) timer = setTimeout(follow, lost ? AGAIN_MS : EVERY_MS);
  };

  store.watch(["language"], () => {
    setText(name, t("models.hub"));
    setText(button, t("models.import"));
    rows.forEach((each) => each.show());
  });
  const submit = (event) => {
    event.preventDefault();
    act(`import?model=${encodeURIComponent(model.value.trim())}`, "POST");
  };
  return el("form", { class: "importing", onsubmit: submit }, el("div", { class: "controls" }, el("label", { class: "field" }, name, model), button), problem, list);
}

// One import. show(import): draws it, and says whether it is ready now and was not before; show(): in another language.
function row(cancel) {
  const [text, sentence] = [el("span", { role: "status" }), el("p")];
  const bytes = el("span");
  const bar = el("progress", { max: "1" });
  const button = el("button", { class: "link", type: "button", onclick: cancel });
  const element = el("div", {}, text, bytes, bar, button, sentence);
  let drawn = {};
  return {
    element,
    show(each = drawn) {
      const running = each.state === "running";
      const came = each.state === "done" && drawn.state === "running";
      drawn = each;
      element.className = `import ${each.state}`;
      setText(text, `${each.model}: ${t(running ? `models.stage.${each.stage}` : `models.state.${each.state}`)}`);
      setText(bytes, running ? counted(each) : "");
      setText(button, t("models.cancel"));
      bar.hidden = button.hidden = !running;
      bar.setAttribute("aria-label", each.model);
      if (each.total) bar.value = each.bytes / each.total;
      else bar.removeAttribute("value"); // which shows that something is being done
      fill(sentence, original(each.error ?? each.note, t("problem.other")));
      sentence.className = each.error ? "problem" : "caption";
      return came;
    },
  };
}

function counted({ bytes, total, seconds, seconds_left: left }) {
  if (!total) return "";
  const parts = [`${size(bytes)} / ${size(total)}`];
  if (seconds && bytes) parts.push(`${size(bytes / seconds)}/s`);
  if (left !== null) parts.push(t("models.left", { seconds: Math.ceil(left) }));
  return parts.join(", ");
}

function size(bytes) {
  return bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(bytes < 1e8 ? 1 : 0)} MB`;
}
