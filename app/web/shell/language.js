// The interface's language. What the API says in English is in other languages what chinese_api.js has for it.

import { ENGLISH } from "./english.js";
import { CHINESE } from "./chinese.js";
import { CHINESE_API, CHINESE_PHRASES } from "./chinese_api.js";
import { keep, kept } from "./kept.js";

const TEXTS = { en: ENGLISH, zh: CHINESE };
let current = "en";

export function startLanguage(store) {
  const first = kept("language") ?? ((navigator.language || "en").toLowerCase().startsWith("zh") ? "zh" : "en");
  store.set({ language: first in TEXTS ? first : "en" });
  store.watch(["language"], ({ language }) => {
    current = language;
    document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
    keep("language", language);
  });
}

// t("steps.step", { step: 2 }) fills in {step}.
export function t(key, values = {}) {
  const text = TEXTS[current][key] ?? ENGLISH[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

// The API's own word or sentence, or what there is for it in the language of the page. kind: a table of chinese_api.js.
export function apiText(kind, key, english) {
  return (current === "zh" && CHINESE_API[kind][key]) || english;
}

// What has numbers within: the words that are known are put in place.
export function phrased(text) {
  return current === "zh" ? CHINESE_PHRASES.reduce((result, [english, chinese]) => result.replace(english, chinese), text) : text;
}

export function languageName(code) {
  try {
    return new Intl.DisplayNames([current], { type: "language" }).of(code) ?? code;
  } catch {
    return code;
  }
}

export function byName(codes) {
  const { compare } = new Intl.Collator(current);
  return [...codes].sort((a, b) => compare(languageName(a), languageName(b)));
}

// What would be written as 0 and is none gets two digits that count.
export function figure(number, digits = 2) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  const small = number !== 0 && Math.abs(number) < 0.5 * 10 ** -digits;
  return (small ? number.toExponential(1) : number.toFixed(digits)).replaceAll("-", "−");
}

export function signed(number, digits = 2) {
  return number > 0 ? `+${figure(number, digits)}` : figure(number, digits);
}

export function grouped(number) {
  return number.toLocaleString(current === "zh" ? "zh-CN" : "en-US");
}
