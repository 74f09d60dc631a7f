"""transformers loads what is exported to it, and gives our ids, our tokens and our texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.exports import ODD_TEXTS
from benchmarks.peers.exported import load_transformers
from models import checkpoint as checkpoints
from models.checkpoint import WEIGHTS, sha256
from tests.combinations import slow_but
from tests.tiny import write_multilingual
from tests.training.exporters.exported import TEXTS, answers, write_random
from tests.training.importers.marian import folders
from training.exporters.export_checkpoint import export_checkpoint
from training.exporters.exportable import Form
from training.importers.marian.convert_checkpoint import import_marian

pytest.importorskip("transformers", reason="extra dev brings transformers")
pytestmark = pytest.mark.filterwarnings("default")  # of the other library

NETWORKS: dict[str, tuple[Form, dict[str, Any]]] = {
    "the default recipe": ("pegasus", {"norm": "pre", "tied": "all"}),
    "pre-norm with Marian's positions": (
        "pegasus",
        {"norm": "pre", "tied": "all", "positions": "marian", "activation": "gelu", "scale_embedding": False},
    ),
    "OPUS-MT": ("marian", {"tied": "all", "positions": "marian", "output_bias": True, "activation": "silu"}),
    "the paper's": ("marian", {"tied": "all"}),
    "two vocabularies": ("marian", {"tied": "output", "attention_bias": False}),
    "untied": ("marian", {"tied": "none", "output_bias": True, "decoder_layers": 1, "activation": "gelu"}),
}


@pytest.mark.parametrize("name", slow_but(NETWORKS, "the default recipe", "OPUS-MT", "untied"))
def test_transformers_writes_our_tokens_and_an_import_has_our_weights(tmp_path: Path, name: str) -> None:
    form, options = NETWORKS[name]
    checkpoint = write_random(tmp_path / "ours", **options)
    ours, theirs = answers(checkpoint, "transformers", "transformers", tmp_path / "out")
    assert theirs == ours
    assert json.loads((tmp_path / "out/config.json").read_text())["model_type"] == form
    import_marian(str(tmp_path / "out"), tmp_path / "imported")
    assert sha256(tmp_path / "imported" / WEIGHTS) == sha256(checkpoint.weights)
    imported = checkpoints.read(tmp_path / "imported")
    assert imported.config.architecture["norm"] == options.get("norm", "post")
    assert imported.config.suppressed == checkpoint.config.suppressed
    assert (imported.config.max_new_tokens, imported.config.renormalise) == (80, True)


@pytest.mark.parametrize("tied", ["all", "output"])
def test_its_tokenizer_gives_our_ids_and_texts(tmp_path: Path, tied: str) -> None:
    """tied = output has two vocabularies."""
    checkpoint = write_random(tmp_path / "ours", tied=tied)
    export_checkpoint(checkpoint.folder, "transformers", tmp_path / "out")
    import_marian(str(tmp_path / "out"), tmp_path / "imported")
    imported = checkpoints.read(tmp_path / "imported")
    tokenizer, _ = load_transformers(tmp_path / "out")
    for text in (*TEXTS, *ODD_TEXTS):
        ids = list(checkpoint.source_ids(text))
        assert tokenizer(text).input_ids == ids
        assert list(imported.source_ids(text)) == ids
        tokens = checkpoint.tokenizers["target"].encode(text)
        output = [*checkpoint.config.target_prefix, *tokens]
        assert tokenizer.decode(output, skip_special_tokens=True) == checkpoint.decode(output).strip()
        assert tokenizer(text_target=text).input_ids == [*tokens, checkpoint.config.eos]


@pytest.mark.parametrize(
    ("separate", "languages"),
    [
        pytest.param(False, (), marks=pytest.mark.slow),
        pytest.param(True, (), marks=pytest.mark.slow),
        (False, (">>deu<<", ">>nld<<")),
    ],
)
def test_an_imported_model_comes_out_as_it_went_in(tmp_path: Path, separate: bool, languages: tuple[str, ...]) -> None:
    original = folders.write(tmp_path / "opus", separate=separate, languages=languages, pair=("en", "de"))
    import_marian(str(original), tmp_path / "first")
    first = checkpoints.read(tmp_path / "first")
    export_checkpoint(tmp_path / "first", "marian", tmp_path / "out")
    import_marian(str(tmp_path / "out"), tmp_path / "second")
    second = checkpoints.read(tmp_path / "second")
    assert sha256(second.weights) == sha256(first.weights)
    theirs, ours = (load_transformers(path)[1].state_dict() for path in (original, tmp_path / "out"))
    assert theirs.keys() == ours.keys()
    assert all(theirs[name].equal(ours[name]) for name in theirs)
    same = ("source_prefix", "suppressed", "renormalise", "forced_end", "max_new_tokens", "max_source_tokens")
    if languages:
        import_marian(str(tmp_path / "out"), tmp_path / "third", target="nl")
        assert checkpoints.read(tmp_path / "third").config.source_prefix == (3,)
    for name in same:
        assert getattr(second.config, name) == getattr(first.config, name), name
    one, other = (load_transformers(path)[0] for path in (original, tmp_path / "out"))
    for text in (*TEXTS, *ODD_TEXTS, ">>nld<< Good morning.", "a </s> b"):
        assert second.source_ids(text) == first.source_ids(text)
        assert one(text).input_ids == other(text).input_ids


def test_a_multilingual_model_reads_its_language_tokens_there(tmp_path: Path) -> None:
    folder = write_multilingual(tmp_path / "ours", [("de", "en"), ("de", "es")])
    summary = export_checkpoint(folder, "transformers", tmp_path / "out")
    tokenizer, _ = load_transformers(tmp_path / "out")
    text = ">>es<< der hund schläft"
    assert tokenizer(text).input_ids == list(checkpoints.read(folder).source_ids(text))
    assert "`>>es<<` for de to es" in " ".join(summary["notes"])  # type: ignore[arg-type]


def test_a_multilingual_model_comes_back_with_its_pairs(tmp_path: Path) -> None:
    folder = write_multilingual(tmp_path / "ours", [("de", "en"), ("en", "de"), ("de", "es")])
    export_checkpoint(folder, "transformers", tmp_path / "out")
    import_marian(str(tmp_path / "out"), tmp_path / "back")
    first, second = (checkpoints.read_config(path) for path in (folder, tmp_path / "back"))
    assert second.language_pairs == first.language_pairs
    assert second.files[WEIGHTS] == first.files[WEIGHTS]
    import_marian(str(tmp_path / "out"), tmp_path / "one", source="de", target="es")
    one = checkpoints.read_config(tmp_path / "one")
    assert (one.source_language, one.target_language, one.language_pairs) == ("de", "es", ())
    assert one.source_prefix == first.language_pairs[2].source_prefix
