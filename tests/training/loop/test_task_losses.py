"""Losses against arithmetic done by hand: log-softmax, smoothing, masks, carried state."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel
from models.networks.transformer import Transformer, TransformerConfig
from tests.models import tiny
from tests.training.small import lyricist, translator
from training.config.run_config import LoopConfig
from training.data.batches import pair_batch
from training.evaluation.scores import negative_log_likelihood
from training.loop.tasks import LyricsTask, TranslationTask

SOURCES = [(4, 5, 3), (6, 3), (7, 4, 5, 6, 3), (5, 5, 3)]
TARGETS = [(2, 4, 3), (2, 5, 6, 7, 4, 3), (2, 3), (2, 6, 6, 3)]


def eight_words(**options: Any) -> Transformer:
    """One layer of width 8 on a vocabulary of 8, always with the same weights."""
    torch.manual_seed(0)
    sizes = {"source_vocabulary": 8, "target_vocabulary": 8, "d_model": 8, "heads": 2, "head_width": 4, "d_ff": 16}
    return Transformer(TransformerConfig(**sizes, encoder_layers=1, decoder_layers=1, **options))


def translation_task(smoothing: float, **options: Any) -> TranslationTask:
    network, data = eight_words().eval(), (SOURCES, TARGETS)
    config = translator(label_smoothing=smoothing, tokens_per_batch=12, **options)
    return TranslationTask(network, data, data, config)


def by_hand(logits: Tensor, target: int, smoothing: float) -> float:
    """-(1 - e) log p(target) - e/V sum over all log p, in Python's own floats."""
    values = [float(v) for v in logits.detach()]
    total = math.log(sum(math.exp(v) for v in values))
    log_p = [v - total for v in values]
    return -(1 - smoothing) * log_p[target] - smoothing / len(values) * sum(log_p)


def summed_by_hand(task: TranslationTask, smoothing: float) -> tuple[float, int]:
    """Every pair alone, so that there is no padding at all."""
    total, tokens = 0.0, 0
    for source, target in zip(SOURCES, TARGETS, strict=True):
        logits = task.network(torch.tensor([source]), torch.tensor([target[:-1]]))[0]
        for position, expected in enumerate(target[1:]):
            total += by_hand(logits[position], expected, smoothing)
            tokens += 1
    return total, tokens


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_a_translators_loss_is_the_mean_over_real_tokens(smoothing: float) -> None:
    task = translation_task(smoothing)
    total, tokens = summed_by_hand(task, smoothing)
    loss, counted = task.loss(pair_batch(SOURCES, TARGETS, 0))
    assert counted == tokens == 11
    assert loss.item() == pytest.approx(total / tokens, rel=1e-5)


def test_padding_and_batch_order_do_not_matter() -> None:
    task = translation_task(0.1)
    loss, tokens = task.loss(pair_batch(SOURCES, TARGETS, 0))
    backwards, _ = task.loss(pair_batch(SOURCES[::-1], TARGETS[::-1], 0))
    assert backwards.item() == pytest.approx(loss.item(), rel=1e-6)
    apart = [task.loss(pair_batch([s], [t], 0)) for s, t in zip(SOURCES, TARGETS, strict=True)]
    assert sum(part.item() * n for part, n in apart) / tokens == pytest.approx(loss.item(), rel=1e-5)


def test_the_gradient_does_not_depend_on_padding() -> None:
    together, apart = translation_task(0.1), translation_task(0.1)
    loss, tokens = together.loss(pair_batch(SOURCES, TARGETS, 0))
    loss.backward()
    for source, target in zip(SOURCES, TARGETS, strict=True):
        part, count = apart.loss(pair_batch([source], [target], 0))
        (part * count / tokens).backward()
    for a, b in zip(together.network.parameters(), apart.network.parameters(), strict=True):
        assert a.grad is not None
        assert b.grad is not None
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


def test_validation_is_without_smoothing_over_all_batches() -> None:
    task = translation_task(0.3)
    assert len(task.batches(0)) > 1
    total, tokens = summed_by_hand(task, 0.0)
    with torch.inference_mode():
        assert task.validate() == pytest.approx(total / tokens, rel=1e-5)


def lyrics_task(cell: str, **changes: Any) -> LyricsTask:
    torch.manual_seed(0)
    config = lyricist(batch_size=2, bptt=4, offset=False, **changes)
    network = RecurrentLanguageModel(
        RecurrentConfig(vocabulary=7, cell=cell, embedding=5, hidden=6, layers=2)  # type: ignore[arg-type]
    )
    generator = torch.Generator().manual_seed(1)
    return LyricsTask(network, torch.randint(7, (35,), generator=generator), None, config)


@pytest.mark.parametrize("cell", tiny.ALL_CELLS)
def test_carried_windows_equal_one_long_pass(cell: str) -> None:
    task = lyrics_task(cell)
    batches = task.batches(0)
    assert len(batches) == 4
    parts = [task.loss(batch) for batch in batches]
    assert [tokens for _, tokens in parts] == [8] * 4
    strands = task.train[:34].view(2, 17)
    logits, last = task.network(strands[:, :16])
    expected = [
        sum(by_hand(logits[row, t], int(strands[row, t + 1]), 0.0) for row in (0, 1) for t in range(i, i + 4)) / 8
        for i in range(0, 16, 4)
    ]
    assert [loss.item() for loss, _ in parts] == pytest.approx(expected, rel=1e-5)
    assert task.state is not None
    torch.testing.assert_close(task.state.hidden, last.hidden)
    assert not task.state.hidden.requires_grad  # detached: a window's gradient ends at its start


def test_an_epoch_starts_from_a_zero_state() -> None:
    task = lyrics_task("gru")
    first = [task.loss(batch)[0].item() for batch in task.batches(0)]
    assert [task.loss(batch)[0].item() for batch in task.batches(1)] == first


def test_random_windows_carry_nothing() -> None:
    task = lyrics_task("gru", sampling="random")
    batch = task.batches(0)[1]
    alone = task.loss(batch)[0].item()
    for other in task.batches(3):
        task.loss(other)
    assert task.loss(batch)[0].item() == alone


def test_offsets_differ_from_epoch_to_epoch_and_never_cost_the_last_window() -> None:
    config = lyricist(batch_size=2, bptt=40, loop=LoopConfig(seed=3))
    network = RecurrentLanguageModel(RecurrentConfig(vocabulary=7, embedding=5, hidden=6))
    for length in (82, 83, 100, 121, 300):  # 82 is one window of both strands and not a character more
        task = LyricsTask(network, torch.arange(length), None, config)
        starts = {int(task.batches(epoch)[0].inputs[0, 0]) for epoch in range(200)}
        spare = length - 2 * 41
        assert max(starts) <= min(39, spare)
        assert len(starts) == min(40, spare + 1)


@pytest.mark.parametrize("window", [1, 3, 7, 1024])
def test_the_likelihood_of_a_text_is_that_of_every_character_but_the_first(window: int) -> None:
    task = lyrics_task("lstm")
    text = task.train[:15]
    with torch.inference_mode():
        logits = task.network(text[None, :-1])[0][0]
    expected = sum(by_hand(logits[t], int(text[t + 1]), 0.0) for t in range(14))
    nats, characters = negative_log_likelihood(task.network, text, window=window)
    assert characters == 14
    assert nats == pytest.approx(expected, rel=1e-5)


def test_a_character_that_is_never_written_is_no_target() -> None:
    plain = lyrics_task("gru")
    text = torch.tensor([0, 3, 4, 3, 5, 4, 3, 0, 3, 4] * 6)
    task = LyricsTask(plain.network.eval(), text, text, plain.config, untaught=3)
    (batch, *_) = task.batches(0)
    logits = task.network(batch.inputs)[0].flatten(0, 1).detach()
    targets = batch.outputs.flatten()
    rows = [by_hand(logits[i], int(target), 0.0) for i, target in enumerate(targets) if target != 3]
    loss, counted = task.loss(batch)
    assert counted == len(rows) < len(targets)
    assert float(loss.detach()) == pytest.approx(sum(rows) / len(rows), rel=1e-5)
    with torch.inference_mode():
        logits = task.network(text[None, :-1])[0][0]
    rows = [by_hand(logits[t], int(text[t + 1]), 0.0) for t in range(len(text) - 1) if text[t + 1] != 3]
    assert task.validate() == pytest.approx(sum(rows) / len(rows), rel=1e-5)


def test_a_batch_without_a_target_leaves_the_network_as_it_is() -> None:
    plain = lyrics_task("gru")
    text = torch.full((60,), 3)
    task = LyricsTask(plain.network, text, text, plain.config, untaught=3)
    (batch, *_) = task.batches(0)
    task.loss(batch)[0].backward()
    assert all(not p.grad.any() for p in task.network.parameters() if p.grad is not None)
    assert task.validate() is None
