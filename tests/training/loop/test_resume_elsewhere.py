"""A resume with other software than the run began with, and one that is no change at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from models.tokenizer import SentencePieceTokenizer
from tests.training import group_runs
from tests.training.cli.commands import SING, TRANSLATE, refused
from tests.training.counting import Counting, looping
from tests.training.group_runs import plain
from tests.training.groups import together
from tests.training.runs import Killed, kill_at, translate
from training.__main__ import main
from training.config.run_config import LoopConfig, TokenizerConfig
from training.data import tokenizer_training
from training.distributed.process_group import Workers
from training.errors import TrainingError, pluralize
from training.report.progress_report import ProgressReport

pytestmark = pytest.mark.usefixtures("no_curves")
PIECES = {"tokenizer": TokenizerConfig(vocab_size=40)}


def test_other_tokenizers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same corpus, the same size and the same options, as another version of SentencePiece may make them."""
    translate(tmp_path, 1, **PIECES)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    fit = tokenizer_training.sentencepiece_tokenizer

    def reversed_fit(texts: list[str], *arguments: Any, **options: Any) -> SentencePieceTokenizer:
        return fit([text[::-1] + " ab ab ab" for text in texts], *arguments, **options)

    monkeypatch.setattr(tokenizer_training, "sentencepiece_tokenizer", reversed_fit)
    with pytest.raises(TrainingError) as excinfo:
        translate(tmp_path, 2, resume=True, **PIECES)
    assert str(excinfo.value) == (
        f"{tmp_path} was trained with another vocabulary than this version makes of the same corpus; resume it with the"
        " versions of Parlance and SentencePiece that began it, or start anew with another --out."
    )
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_resume_under_another_torch_version_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looping(Counting(), tmp_path, max_epochs=1).run()
    now, threads = torch.__version__, pluralize(torch.get_num_threads(), "thread")
    notes: list[str] = []
    for version, epochs in ((now, 2), ("9.8.7", 3), ("9.8.7", 4)):
        monkeypatch.setattr(torch, "__version__", version)
        loop = looping(Counting(), tmp_path, max_epochs=epochs)
        loop.report.note = notes.append  # type: ignore[method-assign]
        loop.run(resume=True)
    assert notes == [
        f"This run goes on as fp32 on cpu, {threads}, torch 9.8.7 and was fp32 on cpu, {threads}, torch {now} before: a"
        " sound run, though not bit for bit what it would have been."
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "limits",
    [
        [],
        ["--set", "loop.max_epochs=6"],
        ["--max-minutes", "5"],
        ["--max-minutes", "5", "--max-epochs", "6", "--set", "loop.patience=3"],
    ],
)
@pytest.mark.parametrize("command", [TRANSLATE, SING])
def test_resume_with_equal_limits_changes_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], limits: list[str]
) -> None:
    notes: list[str] = []

    def note(report: ProgressReport, text: str) -> None:
        if not text.startswith("Trains with "):  # the backend, which every start names
            notes.append(text)

    monkeypatch.setattr(ProgressReport, "note", note)
    falling = ["--set", "optimizer.schedule=cosine", "--set", "loop.sample_translations=1"]
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 5)
        with pytest.raises(Killed):
            main([*command, *limits, *falling])
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 2)
        with pytest.raises(Killed):
            main([*command, *limits, *falling, "--resume"])
    assert notes == []
    assert main([*command, "--max-epochs", "4", "--resume", *falling, "--max-minutes", "9"]) == 0
    assert [note.partition(":")[0] for note in notes] == ["The limits have changed"]


def unlike(workers: Workers, out: Path) -> Any:
    return group_runs.translate(workers, out, plain(loop=LoopConfig(max_epochs=2 + workers.rank)))


@pytest.mark.slow
def test_processes_with_other_limits_are_refused(tmp_path: Path) -> None:
    """No fingerprint has them, and a process that ends before the others would leave them waiting."""
    errors = together(2, unlike, tmp_path)
    assert all(isinstance(error, TrainingError) for error in errors)
    assert "must be the same on every machine" in str(errors[0])


def test_nan_loss_before_the_first_snapshot_offers_no_resume(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wild = ["--set", "optimizer.name=sgd", "--set", "optimizer.learning_rate=1e9", "--set", "optimizer.clip_norm=0"]
    wild += ["--set", "optimizer.schedule=constant", "--set", "optimizer.warmup_updates=0"]
    output = refused(capsys, *TRANSLATE, *wild)
    assert "lower the learning rate, warm up longer or clip more tightly, and start anew (the rate was" in output
    assert "snapshot" not in output
    assert not (here / "m").exists()
