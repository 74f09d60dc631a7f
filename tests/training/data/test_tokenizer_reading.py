"""Existing tokenizers for a new network."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from models import checkpoint as checkpoints
from tests.training.cli.commands import TRANSLATE, refused
from training.__main__ import main
from training.data.tokenizer_training import read_tokenizers, sequence_ids, tokenizer_digest
from training.errors import TrainingError

pytestmark = pytest.mark.usefixtures("no_curves")


def model(path: Path, **options: Any) -> Path:
    """A SentencePiece model of the letters of the tests' corpora, numbered as SentencePiece does by default."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e f g h A B C D E F G H"] * 20),
        model_writer=written,
        vocab_size=24,
        model_type="bpe",
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    path.write_bytes(written.getvalue())
    return path


def test_model_file_without_padding_pads_with_its_start(tmp_path: Path) -> None:
    tokenizers, _ = read_tokenizers(str(model(tmp_path / "spm.model")))
    ids = sequence_ids(tokenizers, "eos")
    assert (ids.pad, ids.start, ids.end, ids.source_end, ids.suppressed) == (1, 1, 2, 2, (0, 1))


def test_run_reuses_a_model_file_and_is_repeated(here: Path) -> None:
    model(here / "spm.model")
    options = ["--tokenizer", "spm.model", "--max-epochs", "1", "--set", "network.tied=all"]
    assert main([*TRANSLATE, *options]) == 0
    checkpoint = checkpoints.read(here / "m")
    assert checkpoint.tokenizers["source"].encode("a b") == read_tokenizers("spm.model")[0]["source"].encode("a b")
    assert (checkpoint.config.eos, checkpoint.config.target_prefix, checkpoint.config.architecture["pad"]) == (
        2,
        (1,),
        1,
    )
    assert main(["translator", "--config", "m/run.toml", "--out", "again", "--device", "cpu"]) == 0
    assert (here / "again" / "model.safetensors").read_bytes() == (here / "m" / "model.safetensors").read_bytes()
    assert main([*TRANSLATE, "--tokenizer", "m", "--max-epochs", "1", "--out", "third"]) == 0
    assert tokenizer_digest(checkpoints.read(here / "third").tokenizers) == tokenizer_digest(checkpoint.tokenizers)


def test_tokenizers_that_do_not_fit_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model(here / "spm.model")
    model(here / "bare.model", bos_id=-1)
    model(here / "padded.model", pad_id=3)
    (here / "text.model").write_text("no model")
    with pytest.raises(TrainingError, match=r"has no token for padding \(pad\) and none for a start \(bos\)"):
        read_tokenizers("bare.model")
    with pytest.raises(TrainingError, match=r"Padding has the id 1 in the source tokenizer and 3 in the target's"):
        read_tokenizers("spm.model,padded.model")
    for given, expected in {
        "text.model": "text.model is no tokenizer that can be read: --tokenizer takes",
        "nowhere": "There is no nowhere: --tokenizer takes",
        "spm.model,nowhere": "There is no nowhere: --tokenizer takes",
    }.items():
        assert refused(capsys, *TRANSLATE, "--tokenizer", given).startswith(expected)
    said = refused(capsys, *TRANSLATE, "--tokenizer", "spm.model", "--vocab-size", "99")
    assert "tokenizer.vocab_size = 99 contradicts --tokenizer spm.model" in said
    assert not (here / "m").exists()
