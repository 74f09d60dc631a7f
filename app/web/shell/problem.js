// What went wrong, in the API's own sentence.

import { aborted } from "./api.js";
import { el } from "./dom.js";
import { apiText, t } from "./language.js";

export function problemOf(error, where) {
  if (aborted(error)) return null;
  if (error.code === "unreachable") return { where, code: error.code };
  if (error.message && "code" in error) return { where, code: error.code, field: error.field, sentence: error.message };
  return { where, code: "page", sentence: String(error.message ?? error) };
}

// The problem as children of an element, in the language of the page.
export function told(problem) {
  if (!problem) return null;
  const { code, sentence } = problem;
  if (code === "unreachable") return [t("problem.unreachable")];
  if (code === "page") return [t("problem.page", { what: sentence })];
  return original(sentence, apiText("errors", code, t("problem.other")));
}

// A sentence that the API has in English alone: in another language after what that language says of it.
export function original(sentence, own) {
  if (!sentence || document.documentElement.lang === "en") return [sentence];
  return [own, " ", el("q", { lang: "en" }, sentence)];
}
