// The room Lyrics.

import { el } from "../shell/dom.js";
import { filesMenu } from "../translate/files.js";
import { lyricsControls } from "./controls.js";
import { gatesPanel, units } from "./gates.js";
import { lyricsText } from "./text.js";

export function lyricsRoom(store) {
  const exported = (state) => {
    const matrix = units(state);
    return matrix && { ...matrix, values: matrix.shares };
  };
  return el("div", { class: "room" }, lyricsControls(store),
    el("div", { class: "top" }, el("span"), filesMenu(store, "gates", exported, (state) => state.gates)),
    el("div", { class: "panels" }, lyricsText(store), gatesPanel(store)));
}
