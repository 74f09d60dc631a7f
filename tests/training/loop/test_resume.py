"""Runs that stop and go on as if they had not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from models import checkpoint as checkpoints
from tests.training.counting import Counting, looping
from tests.training.runs import RUNS, Killed, assert_same_run, kill_at, sing, sing_unheard, timeless, translate
from tests.training.small import CPU, lyricist, pairs, text, translator
from training import snapshot
from training.config.run_config import LoopConfig, OptimizerConfig
from training.errors import TrainingError
from training.loop import trainer as loops
from training.lyricist_run import train_lyricist
from training.training_run import TrainingRun
from training.translator_run import train_translator

pytestmark = pytest.mark.usefixtures("no_curves")


def test_patience_goes_on_counting_after_a_resume(tmp_path: Path) -> None:
    looping(Counting([1.0, 2.0]), tmp_path, max_epochs=2, patience=3).run()
    outcome = looping(Counting([2.0] * 9), tmp_path, max_epochs=9, patience=3).run(resume=True)
    assert outcome.progress.epoch == 4


@pytest.mark.slow
def test_snapshot_that_fits_no_more_is_not_called_another_run(tmp_path: Path) -> None:
    """As after an edit of the network: the options and the corpus are those of the snapshot."""
    sing(tmp_path / "m", 1)
    state = snapshot.load(tmp_path / "m")
    for changed in ({"network": {}}, {"average": [None]}, {"random": 3}, {"logged": None}, {"best": [1]}):
        snapshot.save(tmp_path / "m", state | changed)
        with pytest.raises(TrainingError) as refused:
            sing(tmp_path / "m", 2, resume=True)
        sentence = f"{tmp_path / 'm' / 'resume' / 'state.pt'} does not fit the code of this run, or is damaged: "
        assert str(refused.value) == f"{sentence}restore it from a copy, or begin anew with another --out."


@pytest.mark.parametrize("train", [pytest.param(RUNS[0], marks=pytest.mark.slow), *RUNS[1:]])
def test_resumed_epochs_equal_an_uninterrupted_run(tmp_path: Path, train: Any, whole: Callable[..., Path]) -> None:
    train(tmp_path, 2)
    half = snapshot.load(tmp_path)["network"]
    train(tmp_path, 4, resume=True)
    assert_same_run(tmp_path, whole(train))
    assert any(not torch.equal(t, half[name]) for name, t in snapshot.load(tmp_path)["network"].items())


@pytest.mark.parametrize("number", [*(pytest.param(early, marks=pytest.mark.slow) for early in (1, 2)), 7])
@pytest.mark.parametrize("train", RUNS)
def test_run_killed_at_any_snapshot_resumes_bit_for_bit(
    tmp_path: Path, train: Any, number: int, whole: Callable[..., Path]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        seen = kill_at(patch, number)
        with pytest.raises(Killed):
            train(tmp_path)
    assert seen[0] == (0, 1)  # inside the first epoch
    assert not checkpoints.is_checkpoint(tmp_path)
    train(tmp_path, resume=True)
    assert_same_run(tmp_path, whole(train))


@pytest.mark.slow
def test_a_run_killed_again_and_again(tmp_path: Path, whole: Callable[..., Path]) -> None:
    """With a falling rate that knows the end, and with log lines written after the snapshots."""
    changes = {"optimizer": OptimizerConfig(learning_rate=1e-2, schedule="cosine", warmup_updates=3)}
    translate(tmp_path / "whole", **changes)
    resume = False
    for number in (3, 1, 4):
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, number)
            with pytest.raises(Killed):
                translate(tmp_path / "parts", resume=resume, **changes)
        with (tmp_path / "parts" / "metrics.jsonl").open("a") as file:
            file.write('{"update": 9999, "epoch": 0, "loss": 0.0}\n{"update": 77, "lo')
        resume = True
    translate(tmp_path / "parts", resume=True, **changes)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path, whole: Callable[..., Path]) -> None:
    for train in (translate, sing_unheard):
        out = shutil.copytree(whole(train), tmp_path / train.__name__)
        train(out, resume=True)
        assert_same_run(out, whole(train))


def test_the_log_within_an_epoch_is_the_same_after_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "LOG_EVERY_UPDATES", 5)
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    looping(Counting(batches=12), tmp_path / "whole", max_epochs=2).run()
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 8)
        with pytest.raises(Killed):
            looping(Counting(batches=12), tmp_path / "parts", max_epochs=2).run()
    looping(Counting(batches=12), tmp_path / "parts", max_epochs=2).run(resume=True)
    assert timeless(tmp_path / "parts") == timeless(tmp_path / "whole")
    losses = {row["update"]: row["loss"] for row in timeless(tmp_path / "whole")}
    assert losses == pytest.approx({5: -2.0, 10: -7.0, 12: -10.5, 15: -13.0, 20: -17.0, 24: -21.5})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"max_tokens": 255}, "max_tokens"),
        ({"label_smoothing": 0.2}, "label_smoothing"),
        ({"optimizer": OptimizerConfig(learning_rate=1e-3)}, "optimizer.learning_rate"),
        ({"network": {**translator().network, "d_model": 32}}, "network.d_model"),
        ({"loop": LoopConfig(ema_decay=0.0)}, "loop.ema_decay"),
        ({"loop": LoopConfig(ema_decay=0.9, seed=2)}, "loop.seed"),
    ],
)
def test_resume_with_another_recipe_is_refused(
    tmp_path: Path, change: dict[str, Any], named: str, whole: Callable[..., Path]
) -> None:
    shutil.copytree(whole(translate), tmp_path, dirs_exist_ok=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(TrainingError) as excinfo:
        translate(tmp_path, 5, resume=True, **change)
    first, _, rest = str(excinfo.value).partition("; resume it with the same, ")
    assert first.startswith(f"{tmp_path} was trained with ")
    assert f"{named} = " in first
    assert rest.endswith(f"or train its model on other data with --from {tmp_path} and another --out.")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_resume_with_another_corpus_is_refused(tmp_path: Path) -> None:
    translate(tmp_path / "t", 1)
    with pytest.raises(TrainingError, match="another recipe, corpus or seed"):
        train_translator(
            translator(), pairs(40, seed=9), None, TrainingRun(out=tmp_path / "t", device=CPU, resume=True, quiet=True)
        )
    sing(tmp_path / "s", 1)
    with pytest.raises(TrainingError, match="another recipe, corpus or seed"):
        train_lyricist(
            lyricist(), text(300)[::-1], TrainingRun(out=tmp_path / "s", device=CPU, resume=True, quiet=True), origin=""
        )


def test_more_time_may_be_given_at_a_resume(tmp_path: Path) -> None:
    translate(tmp_path, 1)
    config = translator(loop=LoopConfig(max_epochs=2, ema_decay=0.9, max_minutes=60.0, patience=3))
    train_translator(
        config, pairs(40), pairs(10, seed=1), TrainingRun(out=tmp_path, device=CPU, resume=True, quiet=True)
    )
    assert snapshot.load(tmp_path)["progress"]["epoch"] == 2


def test_resume_on_another_machine_notes_possible_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looping(Counting(), tmp_path, max_epochs=1).run()
    notes: list[str] = []
    for threads, epochs in ((1, 2), (3, 3)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        loop = looping(Counting(), tmp_path, max_epochs=epochs)
        loop.report.note = notes.append  # type: ignore[method-assign]
        loop.run(resume=True)
    others = f"torch {torch.__version__}"
    assert notes == [
        f"This run goes on as fp32 on cpu, 3 threads, {others} and was fp32 on cpu, 1 thread, {others} before: a sound"
        " run, though not bit for bit what it would have been."
    ]
