"""The contenders of the training race on a toy, and that both are raced over the same tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import mfu
from benchmarks.training import plain_settings, ratio, toy
from benchmarks.training_race import Ours


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
    rows, goals = mfu.measured(smoke=False)
    assert rows == []
    assert goals[0]["value"] is None
    assert goals[0]["why"] == "there is no CUDA device here"


def test_counted_training_loop_runs_on_a_cpu() -> None:
    rows, goals = mfu.measured(smoke=True)
    assert rows[0]["operations/s"] > 0
    assert goals[0]["value"] is None
