"""The contenders of the training race on a toy, and that both are raced over the same tokens."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import mfu
from benchmarks.training import plain_settings, ratio, toy
from benchmarks.training_race import Ours, network
from training.data.batches import PairBatch
from training.loop.tasks import TranslationTask


def test_an_epoch_has_the_same_target_tokens_for_ours_and_for_the_plain_loop(tmp_path: Path) -> None:
    config, pairs, vocabulary = toy()
    corpus, threads = tmp_path / "corpus.json", torch.get_num_threads()
    corpus.write_text(json.dumps(pairs), encoding="utf-8")
    try:
        ours = Ours(str(corpus), config, vocabulary, threads).open()
        settings = plain_settings(config, str(corpus), vocabulary)
        name = next(setting for setting in settings if f"fp32, 1 threads, {config.tokens_per_batch} tokens" in setting)
        plain = settings[name].open()
        expected = sum(len(target) - 1 for target in pairs[1])
        updates = len(list(ours.task.whole.batches(0)))
        seconds, tokens = ours.answer(updates)
        assert tokens == expected
        assert seconds > 0
        whole = 0
        for group in plain.groups:
            whole += sum(len(plain.target[i]) - 1 for i in group)
            if whole >= expected:
                break
        assert whole == expected
        assert plain.answer(1)[1] > 0
    finally:
        torch.set_num_threads(threads)


def test_the_best_setting_is_looked_for_in_both_precisions() -> None:
    config, _, vocabulary = toy()
    settings = plain_settings(config, "corpus.json", vocabulary).values()
    assert {setting.precision for setting in settings} == {"fp32", "bf16"}
    assert {setting.tokens for setting in settings} == {config.tokens_per_batch, 4096}
    assert 1 in {setting.threads for setting in settings}


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    assert ratio([4.0, 9.0, 5.0], [2.0, 3.0, 1.0]) == 3.0


def test_without_a_gpu_the_share_of_its_peak_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(mfu, "SENTENCES", 1500)
    rows, (making, utilisation) = mfu.measured(smoke=False)
    assert [row["making a batch"] for row in rows] == ["memory", "files"]
    assert making["name"] == "making a batch of 25,000 tokens"
    assert making["value"] == max(row["median ms"] for row in rows) > 0
    assert (utilisation["value"], utilisation["why"]) == (None, "there is no CUDA device here")


def test_utilisation_is_measured_over_the_loop_with_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batches of the counted operations are those that the loop's thread makes and the updates read."""
    threads, losses = list[str](), list[tuple[int, int]]()
    make, loss = mfu.Stretch.__getitem__, TranslationTask.loss

    def made(stretch: Any, index: Any) -> Any:
        threads.append(threading.current_thread().name)
        return make(stretch, index)

    def counted(task: TranslationTask, batch: PairBatch) -> Any:
        losses.append((int((batch.source != task.pad).sum()), int((batch.outputs != task.pad).sum())))
        return loss(task, batch)

    monkeypatch.setattr(mfu.Stretch, "__getitem__", made)
    monkeypatch.setattr(TranslationTask, "loss", counted)
    rows, goals = mfu.measured(smoke=True)
    row = rows[-1]
    assert row["operations/s"] > 0
    assert row["compiled"] is False
    assert 0 <= row["share of time waiting for batches"] < 1
    assert row["ms to make a batch"] > 0
    assert threads == ["batches"] * 3
    assert len(losses) == 3
    assert goals[-1]["value"] is None


def test_operations_are_those_of_the_batches_in_turn() -> None:
    config, pairs, vocabulary = toy()
    made, arrays = network(config, vocabulary), mfu.token_arrays(pairs)
    task = mfu.Stretches(TranslationTask(made, arrays, None, config), arrays)
    count = len(task.epoch)
    for first, updates in ((0, 3), (3, 2), (0, count - 4)):  # the last stretch no longer fits behind the others
        work, tokens = task.advance(updates)
        batches = list(task.batches(0))
        assert [batch.source.tolist() for batch in batches] == [
            task.epoch[i].source.tolist() for i in range(first, first + updates)
        ]
        lengths = [
            (int((s != 0).sum()), int((t != 0).sum()))
            for batch in batches
            for s, t in zip(batch.source, batch.outputs, strict=True)
        ]
        assert tokens == sum(t for _, t in lengths)
        assert work == pytest.approx(mfu.operations(made.config, lengths))
