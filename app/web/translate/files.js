// Share and export, at the top of the room.

import { el, setText } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { say } from "../shell/live.js";
import { fitsLink, keep } from "../shell/address.js";
import { csv, json, picture, pngFile, save, svgFile } from "../drawing/export.js";

// matrix(state) -> what is shown, or null; answer(state) -> what the API said, or null.
export function filesMenu(store, name, matrix, answer) {
  const share = el("button", { class: "link" });
  const kinds = ["PNG", "SVG", "CSV", "JSON"];
  const buttons = kinds.map((kind) => el("button", { class: "link", "data-export": kind.toLowerCase(), onclick: () => exported(kind) }, kind));
  const label = el("span", { class: "caption" });
  const said = el("span", { class: "caption" });
  share.addEventListener("click", async () => {
    keep(store);
    const copied = await copyText(location.href);
    setText(said, t(fitsLink(store.get()) ? (copied ? "share.copied" : "share.address") : "share.long"));
    say(said.textContent);
    setTimeout(() => setText(said, ""), 4000);
  });

  async function exported(kind) {
    const state = store.get();
    const shown = matrix(state);
    const note = t(state.row ? "legend.row" : "legend.weight");
    if (kind === "JSON") save(`${name}.json`, json(answer(state)));
    else if (kind === "CSV") save(`${name}.csv`, csv(shown));
    else if (kind === "SVG") save(`${name}.svg`, svgFile(picture(shown, state.row, note)));
    else save(`${name}.png`, await pngFile(picture(shown, state.row, note)));
  }

  const exports = el("span", { class: "files" }, label, buttons);
  store.watch(["language", "answer", "maps", "kind", "gates", "view", "room"], (state) => {
    exports.hidden = state.room === "translate" && state.view === "translate"; // a translation alone has no figure
    setText(share, t("share.link"));
    setText(label, t("share.export"));
    buttons.forEach((button) => {
      button.disabled = button.dataset.export === "json" ? !answer(state) : !matrix(state);
    });
  });
  return el("div", { class: "files" }, said, share, exports);
}

// The clipboard of browsers is for secure origins only; on others a selection can still be copied.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = el("textarea", { class: "unseen", value: text, "aria-hidden": "true" });
    const before = document.activeElement;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    before?.focus();
    return copied;
  }
}
