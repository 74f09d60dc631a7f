// The interface's language. What the API says comes as it is.

import { ENGLISH } from "./english.js";
import { CHINESE } from "./chinese.js";
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

export function languageName(code) {
  try {
    return new Intl.DisplayNames([current], { type: "language" }).of(code) ?? code;
  } catch {
    return code;
  }
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
