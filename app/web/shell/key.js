// The reader's API key. It is asked for when the server refuses a request, and kept for this tab's session, or on this
// device where the reader says so; never in an address. A key that the server refuses is forgotten.

import { el } from "./dom.js";
import { t } from "./language.js";

const NAME = "parlance.key";
const STORES = ["sessionStorage", "localStorage"];

let key = STORES.map((store) => stored(store)).find(Boolean);
let declined = false; // the reader goes on without a key and is not asked again
let asking = null;
const watchers = [];

export function currentKey() {
  return key;
}

// listener(whether there is a key): now and after each change.
export function watchKey(listener) {
  watchers.push(listener);
  listener(Boolean(key));
}

export function forgetKey() {
  use(undefined);
}

// After the server has refused a request with the key `used`: whether it is worth sending again, with another key.
export async function renewKey(used, code) {
  if (declined) return false;
  if (used !== key) return true; // another request's refusal was quicker
  if (key) forgetKey();
  asking ??= ask(code).finally(() => { asking = null; });
  await asking;
  return Boolean(key);
}

function ask(code) {
  return new Promise((done) => {
    const field = el("input", { type: "password", autocomplete: "current-password", required: true });
    const remember = el("input", { type: "checkbox" });
    const dialog = el("dialog", { onclose: () => {
      dialog.remove();
      declined = !dialog.returnValue;
      if (!declined) use(field.value.trim(), remember.checked);
      done();
    } }, el("p", {}, t(code === "key_wrong" ? "key.wrong" : "key.missing")), el("form", { method: "dialog" }, // the API's sentence speaks of headers
      el("p", {}, el("label", {}, t("key.label"), " ", field)),
      el("p", {}, el("label", {}, remember, " ", t("key.remember"))),
      el("button", { value: "use", class: "action" }, t("key.use")), " ",
      el("button", { type: "button", class: "link", onclick: () => dialog.close("") }, t("key.cancel"))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

function use(value, remembered = false) {
  key = value || undefined;
  STORES.forEach((store) => stored(store, key && (store === "localStorage") === remembered ? key : null));
  watchers.forEach((listener) => listener(Boolean(key)));
}

// Reads the key from a store of the browser; or, with a value, writes it, null for none. A refused store keeps nothing.
function stored(store, value) {
  try {
    if (value === undefined) return window[store].getItem(NAME);
    if (value === null) return window[store].removeItem(NAME);
    return window[store].setItem(NAME, value);
  } catch {
    return null;
  }
}
