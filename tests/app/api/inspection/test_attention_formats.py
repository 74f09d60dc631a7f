"""The table of weights: texts stay texts in a spreadsheet, and numbers stay numbers."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from app.api.inspection.attention_answer import _FORMULA, escape_cell
from app.engine.interface import AttentionQuery, AttentionResult
from tests.app.api.client import Client
from tests.app.api.fake_engine import BEER, BIER, FakeEngine

PIECES = ('=1+1|"a"', "+1", "-2", "@sum", "\tx", "\r\n", "'=1", "'a", "1,5", "▁=x")


class Named(FakeEngine):
    async def attention(self, request: AttentionQuery) -> AttentionResult:
        result = await super().attention(request)
        tokens = tuple(structs.replace(BIER, piece=piece) for piece in PIECES)
        return replace(result, source_tokens=tokens, input_tokens=(structs.replace(BEER, piece="-1"),))


def table() -> list[dict[str, Any]]:
    engine = Named(weights=[[[[0.0625 * place for place in range(len(PIECES))]]]])
    text = Client(engine).post("/attention?format=csv", json={"source": "bier", "kinds": ["cross"]}).text
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_no_cell_is_a_formula() -> None:
    rows = table()
    assert [row["key_piece"] for row in rows] == [
        *('\'=1+1|"a"', "'+1", "'-2", "'@sum", "'\tx", "'\r\n", "''=1", "'a", "1,5", "▁=x")
    ]
    assert {row["query_piece"] for row in rows} == {"'-1"}
    assert not any(value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for row in rows for value in row.values())


def test_numbers_are_numbers() -> None:
    for place, row in enumerate(table()):
        assert row["weight"] == f"{0.0625 * place:.8f}"
        assert [row[name] for name in ("layer", "head", "query", "key")] == ["0", "0", "0", str(place)]


@pytest.mark.parametrize("piece", [*PIECES, "", "'", "''+"])
def test_one_apostrophe_taken_away_gives_the_piece_back(piece: str) -> None:
    shown = escape_cell(piece)
    assert (shown[1:] if shown.startswith("'") and _FORMULA.match(shown[1:]) else shown) == piece
