"""Every shape of OPUS-MT, small: imported, and then the tokens of transformers in greedy and beam search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.marian_folder import SHAPES
from benchmarks.opus_shapes import BEAMS, compare

pytest.importorskip("transformers", reason="extra dev brings transformers, to which imports are held")
THREE_TABLES = replace(SHAPES["tiny"], tables="three")
SENTENCES = 50


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SHAPES, "three tables"])
def test_a_shape_is_imported_with_its_tokens(name: str, tmp_path: Path) -> None:
    shape = SHAPES.get(name, THREE_TABLES).small()
    row = compare(name, shape, tmp_path, SENTENCES, 16)
    assert row["same_source_ids"] == SENTENCES
    explained = {beam: row[f"same_beam_{beam}"] + row.get(f"cut_beam_{beam}", 0) for beam in BEAMS}
    assert explained == dict.fromkeys(BEAMS, SENTENCES)
    assert ("cut_beam_4" in row) == (not shape.generation_config)
    assert row["distinct"] >= 8  # the network does not write the same whatever it reads
    languages = len(shape.languages)
    assert row["pairs"] == {0: 1, 5: 5, 6: 18 - 1 if "+" in shape.source_target[0] else 6}[languages]
