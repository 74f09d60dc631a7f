"""Attention results as text for other tools: Pharaoh, Nematus, CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable

from app.engine.interface import AttentionResult
from app.errors import InvalidRequest
from models.inspection.interop import to_nematus

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def pharaoh(report: AttentionResult) -> str:
    """source-target word numbers, from 0, on one line; as fast_align, awesome-align and Marian write them."""
    alignment = report.findings.alignment
    assert alignment is not None, "asked for with the form"
    return f"{alignment.pharaoh}\n"


def nematus(report: AttentionResult) -> str:
    """One block of `to_nematus`, which has one map."""
    each = report.maps.get("cross")
    if each is None or each.shape[:2] != (1, 1):
        raise InvalidRequest(
            'This form holds one map: ask for "kinds" ["cross"] and one layer and head, or reduce them to their mean.',
            field="kinds",
        )
    source, target = report.source_tokens, report.output_tokens
    return to_nematus(
        each.values[0, 0],
        [token.piece for token in source],
        [token.piece for token in target],
        score=report.findings.logprob_sum,
        source_ended=bool(source) and source[-1].special,
        target_ended=bool(target) and target[-1].special,
    )


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
    """An apostrophe before what a spreadsheet would run as a formula, also behind apostrophes: taken away, it gives the
    text back. https://owasp.org/www-community/attacks/CSV_Injection"""
    return f"'{text}" if _FORMULA.match(text) else text


FORMATS: dict[str, tuple[str, Callable[[AttentionResult], str]]] = {
    "pharaoh": ("text/plain; charset=utf-8", pharaoh),
    "nematus": ("text/plain; charset=utf-8", nematus),
    "csv": ("text/csv; charset=utf-8", csv_table),
}
