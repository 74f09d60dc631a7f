"""Written corpora are read back unchanged, in every format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.training.data.corpus_writers import jsonl, tmx, tsv, write
from training.data.corpus_loading import read_pairs

# every character except control characters, surrogates and XML's two exceptions, which no format can hold
CHARACTERS = st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff")
TEXTS = st.text(CHARACTERS, min_size=1, max_size=30).map(str.strip).filter(lambda text: text and text[0] != "\ufeff")


@pytest.mark.parametrize(("name", "spell"), [("p.tsv", tsv), ("p.jsonl", jsonl), ("p.tmx", tmx), ("p.tmx.gz", tmx)])
@settings(max_examples=24, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5))
def test_round_trip(
    tmp_path: Path, name: str, spell: Callable[[Sequence[tuple[str, str]]], str], pairs: list[tuple[str, str]]
) -> None:
    result = read_pairs(str(write(tmp_path / name, spell(pairs))), ("de", "en"))
    assert list(zip(result.sources, result.targets, strict=True)) == pairs
    assert result.reported().left_out == 0
