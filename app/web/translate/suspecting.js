// Whether a text is in another language than the one that was chosen. Only a text of some words that is in no doubt is
// spoken of: nobody is to be nagged about a name or two.

import { post } from "../shell/api.js";
import { AUTO } from "./decoding.js";

const READ_CHARACTERS = 200; // of a longer text its beginning tells as much, and who types on asks once; a quota counts them
const LEAST_WORDS = 4;
const LEAST_CONFIDENCE = 90;
const WORD = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|\p{L}{2,}/gu;

let known = { read: "", found: [] };

// Sets `suspected` to the language, where there is one. A refusal is nobody's loss.
export async function suspect(store, { text, pair }, signal) {
  const [source] = pair.split(".");
  const read = beginning(text, READ_CHARACTERS);
  if (source === AUTO || (read.match(WORD) ?? []).length < LEAST_WORDS) return;
  if (known.read !== read) {
    const found = await post("detect", { q: read }, signal).catch(() => []);
    if (signal.aborted || !found.length) return;
    known = { read, found };
  }
  const [{ language, confidence }] = known.found;
  if (confidence >= LEAST_CONFIDENCE && baseOf(language) !== baseOf(source)) store.set({ suspected: language });
}

// Whole characters: half of an emoji is no text.
export function beginning(text, count) {
  return Array.from(text.slice(0, 2 * count)).slice(0, count).join("");
}

// de of de-AT.
export function baseOf(code) {
  return code.toLowerCase().split("-")[0];
}
