"""Validation: when, within what bounds, and that training does not notice it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch

from models import checkpoint as checkpoints
from models.networks import loading
from tests.training.counting import Counting, looping
from tests.training.runs import Killed, assert_same_run, kill_at, sing, translate
from tests.training.small import CPU, lyricist, pairs, text, translator
from training import snapshot
from training.config.run_config import LoopConfig
from training.data.sentence_pairs import Pairs
from training.errors import TrainingError
from training.evaluation import bleu_validator, scores
from training.evaluation.bleu_validator import subsample
from training.evaluation.model_outputs import translate as translations
from training.evaluation.scores import negative_log_likelihood
from training.loop.tasks import LyricsTask, TranslationTask
from training.lyricist_run import train_lyricist
from training.progress import Validation
from training.report.progress_report import ProgressReport, read_rows
from training.training_run import TrainingRun
from training.translator_run import train_translator

pytestmark = pytest.mark.usefixtures("no_curves")


def validations(folder: Path) -> list[int]:
    return [row["update"] for row in read_rows(folder / "metrics.jsonl") if "valid_loss" in row]


def test_validation_by_updates_and_by_epochs() -> None:
    task = Counting([1.0] * 99, batches=10)
    looping(task, max_epochs=3, validate_every_updates=4).run()
    assert task.seen == [4, 8, 10, 12, 16, 20, 24, 28, 30]  # 20 ends an epoch too, and is validated once
    task = Counting([1.0] * 99, batches=10)
    looping(task, max_epochs=3, validate_every_updates=7, validate_every_epochs=0).run()
    assert task.seen == [7, 14, 21, 28, 30]
    with pytest.raises(TrainingError, match="validate_every_epochs must be at least 1, not 0, where"):
        translator(loop=LoopConfig(validate_every_epochs=0))


def test_validated_update_is_not_validated_again_after_a_resume(tmp_path: Path) -> None:
    looping(Counting([3.0, 1.0], batches=4), tmp_path, max_epochs=1, validate_every_updates=2).run()
    again = Counting([9.0], batches=4)
    outcome = looping(again, tmp_path, max_epochs=1, validate_every_updates=2).run(resume=True)
    assert again.seen == []
    assert (outcome.progress.best_loss, outcome.progress.without_gain) == (1.0, 0)
    assert validations(tmp_path) == [2, 4]


@pytest.mark.slow
@pytest.mark.parametrize(("train", "task"), [(translate, TranslationTask), (sing, LyricsTask)])
def test_validation_leaves_training_unchanged(
    tmp_path: Path, train: Any, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its dropout draws the same numbers, though this validation draws some too."""
    validate = task.validate

    def drawing(self: Any) -> float | None:
        torch.rand(7)
        return validate(self)  # type: ignore[no-any-return]

    train(tmp_path / "never", loop=LoopConfig(ema_decay=0.9, validate_every_updates=10**6))
    monkeypatch.setattr(task, "validate", drawing)
    train(tmp_path / "often", loop=LoopConfig(ema_decay=0.9, validate_every_updates=1))
    often, never = (snapshot.load(tmp_path / name) for name in ("often", "never"))
    assert len(validations(tmp_path / "often")) > len(validations(tmp_path / "never")) == 4
    for name, value in often["network"].items():
        assert torch.equal(value, never["network"][name]), name
    assert torch.equal(often["random"][0]["cpu"], never["random"][0]["cpu"])


class Said:
    """A validator with scripted scores that draws random numbers."""

    def __init__(self, *scores: float) -> None:
        self.scores = iter(scores)

    def __call__(self, loss: float) -> Validation:
        assert torch.is_inference_mode_enabled()
        torch.rand(5)
        return Validation(loss, next(self.scores), (("a", "b", "c"),))


def test_choose_by_bleu_keeps_the_weights_of_the_best_bleu(tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_epochs": 9, "patience": 2}
    by_bleu = looping(Counting([1.0, 2.0, 3.0, 4.0]), tmp_path, validator=Said(5, 9, 8, 9), choose_by="bleu", **options)
    calls = list[tuple[int, Any]]()
    by_bleu.report.samples = lambda *given: calls.append(given)  # type: ignore[method-assign, assignment]
    before = torch.get_rng_state()
    outcome = by_bleu.run()
    assert torch.equal(torch.get_rng_state(), before)
    assert (outcome.progress.best_update, outcome.progress.best_bleu, outcome.progress.best_loss) == (2, 9, 2.0)
    assert outcome.weights["weight"].item() == 2.0
    assert outcome.ended_by == "2 validations without a gain"
    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [row["valid_bleu"] for row in rows if "valid_bleu" in row] == [5, 9, 8, 9]
    assert [(row["update"], samples) for row, samples in calls] == [(n, (("a", "b", "c"),)) for n in (1, 2, 3, 4)]
    by_loss = looping(Counting([1.0, 2.0, 3.0, 4.0]), validator=Said(5, 9, 8, 9), **options)
    assert by_loss.run().progress.best_update == 1


def test_choose_by_bleu_is_refused_for_lyrics() -> None:
    with pytest.raises(TrainingError, match="choose_by must be loss for lyrics, not bleu"):
        lyricist(loop=LoopConfig(choose_by="bleu"))


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The samples of all validations."""
    calls: list[Any] = []
    monkeypatch.setattr(ProgressReport, "samples", lambda self, row, given: calls.append(given))
    return calls


def test_validation_bleu_equals_that_of_served_translations(tmp_path: Path, samples: list[Any]) -> None:
    """The last of the run's validations is of the weights that it publishes when there is but one."""
    valid = pairs(10, seed=1)
    loop = LoopConfig(max_epochs=1, choose_by="bleu", sample_translations=2)
    train_translator(translator(loop=loop), pairs(40), valid, TrainingRun(out=tmp_path, device=CPU, quiet=True))
    checkpoint = checkpoints.read(tmp_path)
    outputs = translations(checkpoint, loading.load_network(checkpoint, CPU), valid.sources)
    rows = read_rows(tmp_path / "metrics.jsonl")
    expected = sacrebleu.BLEU().corpus_score(outputs, [valid.targets]).score
    assert [row["valid_bleu"] for row in rows if "valid_bleu" in row] == [expected]
    assert samples == [tuple((valid.sources[i], valid.targets[i], outputs[i]) for i in (0, 5))]


def test_validate_sentences_limits_validation_to_a_fixed_subsample(tmp_path: Path, samples: list[Any]) -> None:
    given = Pairs([str(n) for n in range(10)], [str(-n) for n in range(10)], "made up")
    assert subsample(given, 10) is given
    some = subsample(given, 4)
    assert (some.sources, some.targets) == (["0", "2", "5", "7"], ["0", "-2", "-5", "-7"])
    seen: list[list[str]] = []
    valid = pairs(10, seed=1)

    def counted(checkpoint: Any, network: Any, sources: list[str], **options: object) -> list[str]:
        seen.append(list(sources))
        return sources

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bleu_validator, "translate", counted)
        patch.setattr(scores, "translate", counted)
        loop = LoopConfig(max_epochs=2, choose_by="bleu", validate_sentences=4, sample_translations=1)
        train_translator(translator(loop=loop), pairs(40), valid, TrainingRun(out=tmp_path, device=CPU, quiet=True))
    scored, for_the_card = valid.sources, [valid.sources[0]]  # by the weights that are kept
    assert seen == [*[[valid.sources[i] for i in (0, 2, 5, 7)]] * 2, scored, for_the_card]
    assert samples == [((valid.sources[0], valid.targets[0], valid.sources[0]),)] * 2


def test_validate_characters_limits_validation(tmp_path: Path) -> None:
    given, lengths = text(300), list[int]()

    def counted(network: Any, ids: torch.Tensor, lanes: int, lead: int, **options: Any) -> tuple[float, int]:
        lengths.append(len(ids))
        return negative_log_likelihood(network, ids, lanes, lead, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("training.loop.tasks.negative_log_likelihood", counted)
        config = lyricist(loop=LoopConfig(max_epochs=2, validate_characters=12))
        train_lyricist(config, given, TrainingRun(out=tmp_path, device=CPU, quiet=True), origin="")
    assert lengths == [12, 12]


@pytest.mark.slow  # whole runs, a killed one among them
def test_a_run_chosen_by_bleu_goes_on_after_a_kill(tmp_path: Path) -> None:
    loop = replace(
        translator().loop, choose_by="bleu", validate_every_updates=4, average_best=2, gradient_accumulation=2
    )
    translate(tmp_path / "whole", loop=loop)
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 6)
        with pytest.raises(Killed):
            translate(tmp_path / "parts", loop=loop)
    translate(tmp_path / "parts", loop=loop, resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
