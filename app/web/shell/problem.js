// What went wrong, in the API's own sentence.

import { aborted } from "./api.js";
import { t } from "./language.js";

export function problemOf(error, where) {
  if (aborted(error)) return null;
  if (error.code === "unreachable") return { where, code: error.code, sentence: t("problem.unreachable") };
  if (error.message && "code" in error) return { where, code: error.code, field: error.field, sentence: error.message };
  return { where, code: "page", sentence: t("problem.page", { what: String(error.message ?? error) }) };
}
