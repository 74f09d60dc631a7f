"""How translated lines are written: plain text, with scores, as n-best lists, as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Literal

from training.translation.line_translator import TranslatedLine

OutputFormat = Literal["text", "scores", "n-best", "json"]
Write = Callable[[int, str, TranslatedLine], str]


def plain_text(number: int, source: str, line: TranslatedLine) -> str:
    return line.candidates[0].text + "\n"


def with_score(number: int, source: str, line: TranslatedLine) -> str:
    """SCORE<TAB>TEXT."""
    best = line.candidates[0]
    return f"{best.score:.4f}\t{best.text}\n"


def n_best_list(number: int, source: str, line: TranslatedLine) -> str:
    """Moses' and Marian's lines: NUMBER ||| TEXT ||| F0= LOG-PROBABILITY ||| SCORE; numbers count from 0."""
    return "".join(
        f"{number} ||| {each.text} ||| F0= {each.log_probability:.4f} ||| {each.score:.4f}\n"
        for each in line.candidates
    )


def json_line(number: int, source: str, line: TranslatedLine) -> str:
    def known(value: float) -> float | None:
        return None if math.isnan(value) else round(value, 4)

    best, *others = line.candidates
    values: dict[str, object] = {"line": number + 1, "source": source, "text": best.text, "score": known(best.score)}
    values["log_probability"] = known(best.log_probability)
    if others:
        values["n_best"] = [{"text": each.text, "score": known(each.score)} for each in line.candidates]
    if line.parts > 1:
        values["parts"] = line.parts
    if line.unfinished:
        values["unfinished"] = True
    return json.dumps(values, ensure_ascii=False) + "\n"


FORMATS: dict[OutputFormat, Write] = {
    "text": plain_text,
    "scores": with_score,
    "n-best": n_best_list,
    "json": json_line,
}
