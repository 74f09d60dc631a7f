"""The contenders of the training race on a toy, and that both are raced over the same tokens."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from benchmarks.training import plain_settings, toy
from benchmarks.training_race import Ours, network, stretches


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


def test_tokens_are_those_of_the_batches_in_turn() -> None:
    config, pairs, vocabulary = toy()
    made = network(config, vocabulary)
    task = stretches(config, made, pairs)
    count = len(task.epoch)
    for first, updates in ((0, 3), (3, 2), (0, count - 4)):  # the last stretch no longer fits behind the others
        tokens = task.advance(updates)
        batches = list(task.batches(0))
        assert [batch.source.tolist() for batch in batches] == [
            task.epoch[i].source.tolist() for i in range(first, first + updates)
        ]
        assert tokens == sum(int((batch.outputs != 0).sum()) for batch in batches)
