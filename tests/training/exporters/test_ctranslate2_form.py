"""CTranslate2 gives our tokens from what is exported to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.exported import of_ctranslate2, of_parlance
from models import checkpoint as checkpoints
from tests.combinations import slow_but
from tests.tiny import write_translator
from tests.training.exporters.exported import LIMIT, answers, write_random
from tests.training.importers.marian import folders
from training.exporters.export_checkpoint import export_checkpoint
from training.importers.marian.convert_checkpoint import import_marian

pytest.importorskip("ctranslate2", reason="extra export brings ctranslate2")
NETWORKS: dict[str, dict[str, Any]] = {
    "the default recipe": {"norm": "pre", "tied": "all"},
    "OPUS-MT": {"tied": "all", "positions": "marian", "output_bias": True, "activation": "silu"},
    "two vocabularies": {"tied": "output", "attention_bias": False, "scale_embedding": False, "seed": 13},
    "pre-norm, two vocabularies": {"norm": "pre", "tied": "output", "activation": "gelu", "norm_epsilon": 1e-3},
    "untied, unequal depths": {"tied": "none", "output_bias": True, "encoder_layers": 3, "decoder_layers": 1},
}


@pytest.mark.parametrize("name", slow_but(NETWORKS, "OPUS-MT", "pre-norm, two vocabularies", "untied, unequal depths"))
def test_ctranslate2_writes_our_tokens(tmp_path: Path, name: str) -> None:
    checkpoint = write_random(tmp_path / "ours", **NETWORKS[name])
    ours, theirs = answers(checkpoint, "ctranslate2", "ctranslate2", tmp_path / "out")
    assert theirs == ours


def test_words_are_translated_too(tmp_path: Path) -> None:
    checkpoint = checkpoints.read(write_translator(tmp_path / "words", "de", "en"))
    export_checkpoint(checkpoint.folder, "ctranslate2", tmp_path / "out")
    sources = [checkpoint.source_ids(text) for text in ("wir sehen ein bier", "der hund möchte ein wort")]
    assert checkpoint.tokenizers["source"].special.unknown in sources[1]
    for beam in (1, 4):
        ours = of_parlance(checkpoint, sources, beam, LIMIT)
        assert of_ctranslate2(tmp_path / "out", checkpoint, sources, beam, LIMIT) == ours


def test_an_imported_model_writes_our_tokens(tmp_path: Path) -> None:
    languages, unforced = (">>deu<<", ">>nld<<"), {"forced_eos_token_id": None}
    original = folders.write(tmp_path / "opus", languages=languages, pair=("en", "de"), seed=1, generation=unforced)
    import_marian(str(original), tmp_path / "imported")
    ours, theirs = answers(
        checkpoints.read(tmp_path / "imported"),
        "ctranslate2",
        "ctranslate2",
        tmp_path / "out",
        folders.lines("en")[::200],
    )
    assert theirs == ours
