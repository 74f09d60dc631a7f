"""Attention results as text for other tools: Pharaoh, Nematus, CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence

import numpy as np

from app.engine.interface import AttentionResult, TokenView
from app.errors import InvalidRequest

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def pharaoh(report: AttentionResult) -> str:
    """source-target word numbers, from 0, on one line; as fast_align, awesome-align and Marian write them."""
    alignment = report.findings.alignment
    assert alignment is not None, "asked for with the form"
    return f"{alignment.pharaoh}\n"


def nematus(report: AttentionResult) -> str:
    """One block as Nematus and Marian write it and SoftAlignments reads it: `number ||| target ||| score ||| source |||
    S+1 T+1`, then T+1 rows of S+1 weights, for the end tokens too; zeros where there is none. It has one map."""
    each = report.maps.get("cross")
    if each is None or each.shape[:2] != (1, 1):
        raise InvalidRequest(
            'This form holds one map: ask for "kinds" ["cross"] and one layer and head, or reduce them to their mean.',
            field="kinds",
        )
    source, target = report.source_tokens, report.output_tokens
    ended = [bool(tokens) and tokens[-1].special for tokens in (target, source)]
    weights = np.pad(each.values[0, 0], [(0, int(not end)) for end in ended])
    texts = [nematus_words(tokens[:-1] if end else tokens) for tokens, end in zip((target, source), ended, strict=True)]
    counts = f"{len(texts[1]) + 1} {len(texts[0]) + 1}"
    score = f"{report.findings.logprob_sum:.6f}"
    head = " ||| ".join(["0", " ".join(texts[0]), score, " ".join(texts[1]), counts])
    return "\n".join([head, *(" ".join(f"{weight:.7f}" for weight in row) for row in weights.tolist())]) + "\n"


def nematus_words(tokens: Sequence[TokenView]) -> list[str]:
    """Of such a line: Moses' escape for bars, and a low line for what is blank."""
    shown = ("".join("▁" if each.isspace() else each for each in token.piece) for token in tokens)
    return [each.replace("|", "&#124;") or "▁" for each in shown]


def csv_table(report: AttentionResult) -> str:
    """A row for each weight. Pieces are texts to a spreadsheet, never formulas: see `cell`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["kind", "layer", "head", "query", "key", "query_piece", "key_piece", "weight"])
    for kind, each in report.maps.items():
        rows = report.source_tokens if kind == "encoder" else report.input_tokens
        columns = report.input_tokens if kind == "decoder" else report.source_tokens
        layers = each.layers if each.shape[0] == len(each.layers) else ("reduced",)
        heads = each.heads if each.shape[1] == len(each.heads) else ("reduced",)
        for layer, by_head in zip(layers, each.values.tolist(), strict=True):
            for head, by_row in zip(heads, by_head, strict=True):
                for q, (row, weights) in enumerate(zip(rows, by_row, strict=True)):
                    writer.writerows(
                        [kind, layer, head, q, k, escape_cell(row.piece), escape_cell(column.piece), f"{weight:.8f}"]
                        for k, (column, weight) in enumerate(zip(columns, weights, strict=True))
                    )
    return out.getvalue()


def escape_cell(text: str) -> str:
    """An apostrophe before what a spreadsheet would run as a formula, quoted or not, and before what such an apostrophe
    stands before already: so one taken away gives the text back. https://owasp.org/www-community/attacks/CSV_Injection
    """
    return f"'{text}" if _FORMULA.match(text) else text


FORMATS: dict[str, tuple[str, Callable[[AttentionResult], str]]] = {
    "pharaoh": ("text/plain; charset=utf-8", pharaoh),
    "nematus": ("text/plain; charset=utf-8", nematus),
    "csv": ("text/csv; charset=utf-8", csv_table),
}
