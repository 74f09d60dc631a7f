// The room Lyrics.

import { el, fill, setText } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { demoBanner } from "../models/demo.js";
import { filesMenu } from "../translate/files.js";
import { lyricsControls } from "./controls.js";
import { gatesPanel, units } from "./gates.js";
import { lyricsExamples } from "../translate/start.js";
import { lyricsText } from "./text.js";
import { write, writerOf } from "./writing.js";

export function lyricsRoom(store) {
  const exported = (state) => {
    const matrix = units(state);
    return matrix && { ...matrix, values: matrix.shares };
  };
  const examples = el("p", { class: "examples" });
  const what = el("p", { class: "note" });
  const begin = (prompt) => {
    store.set({ prompt, written: "", wrote: "", chances: [], trace: null, gates: null, finish: "" });
    write(store);
  };
  store.watch(["models", "writing", "language"], ({ models, written, writing }) => {
    const known = written || writing ? [] : lyricsExamples(models);
    setText(what, writing || written ? "" : t("start.lyrics"));
    fill(examples, known.length > 0 && el("span", { class: "caption" }, t("translate.try")), known.map((each) => el("button", { class: "example", onclick: () => begin(each) }, each)));
  });
  return el("div", { class: "room" }, lyricsControls(store), what, examples, demoBanner(store, writerOf, begin, ({ written, writing }) => !written && !writing),
    el("div", { class: "top" }, el("span"), filesMenu(store, "gates", exported, (state) => state.gates)),
    el("div", { class: "panels" }, lyricsText(store), gatesPanel(store)));
}
