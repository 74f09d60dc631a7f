"""Batches: complete, within the budget, reproducible; windows against references written out by hand."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest
import torch

from training.data.batches import batches_by_length, consecutive_windows, padded_pairs, pair_batch, random_windows
from training.data.stored_corpus import JoinedTokens, TokenArray


def log_normal(count: int) -> list[tuple[int, int]]:
    """Lengths as of image captions: a median of 12 words, targets within a few of their sources."""
    generator = random.Random(0)
    sources = [max(2, round(generator.lognormvariate(2.5, 0.35))) for _ in range(count)]
    return [(s, max(2, round(s * generator.uniform(0.8, 1.25)))) for s in sources]


def test_every_pair_comes_exactly_once_an_epoch() -> None:
    lengths = log_normal(3000)
    for epoch in range(3):
        batches = batches_by_length(lengths, 500, 1, epoch)
        assert sorted(index for batch in batches for index in batch) == list(range(3000))


@pytest.mark.parametrize("budget", [100, 1000, 4096])
def test_no_batch_exceeds_its_budget(budget: int) -> None:
    lengths = log_normal(3000)
    for batch in batches_by_length(lengths, budget, 1, 0):
        assert len(batch) * max(max(lengths[i]) for i in batch) <= budget


def test_a_budget_is_used_up_to_its_last_token() -> None:
    batches = batches_by_length([(10, 10)] * 12, 40, 1, 0)
    assert [len(batch) for batch in batches] == [4, 4, 4]
    assert [len(batch) for batch in batches_by_length([(10, 10)] * 12, 39, 1, 0)] == [3, 3, 3, 3]


def test_little_of_a_target_batch_is_padding() -> None:
    lengths = log_normal(20_000)
    padded = sum(len(b) * max(lengths[i][1] for i in b) for b in batches_by_length(lengths, 4096, 1, 0))
    real = sum(target for _, target in lengths)
    assert 1 - real / padded <= 0.10
    padded_sources = sum(len(b) * max(lengths[i][0] for i in b) for b in batches_by_length(lengths, 4096, 1, 0))
    assert 1 - sum(source for source, _ in lengths) / padded_sources <= 0.25


def test_batches_depend_on_seed_and_epoch_only() -> None:
    lengths = log_normal(1000)
    first = batches_by_length(lengths, 400, 5, 2)
    random.seed(99)
    torch.manual_seed(99)
    assert batches_by_length(lengths, 400, 5, 2) == first
    assert batches_by_length(lengths, 400, 5, 3) != first
    assert batches_by_length(lengths, 400, 6, 2) != first
    assert {frozenset(b) for b in batches_by_length(lengths, 400, 5, 3)} != {frozenset(b) for b in first}


def test_batch_order_is_independent_of_length() -> None:
    lengths = log_normal(3000)
    longest = [max(lengths[i][1] for i in batch) for batch in batches_by_length(lengths, 400, 1, 0)]
    assert longest != sorted(longest)


@pytest.mark.parametrize("long", [(50, 3), (3, 50)])
def test_a_pair_over_the_budget_is_alone(long: tuple[int, int]) -> None:
    batches = batches_by_length([(3, 3), (4, 4), long, (4, 3)], 20, 1, 0)
    assert [2] in batches
    assert sorted(len(batch) for batch in batches) in ([1, 3], [1, 1, 2])


def test_a_pair_batch_is_padded_at_the_end_and_shifted_by_one() -> None:
    batch = pair_batch([[5, 6, 3], [7, 3]], [[2, 8, 3], [2, 9, 10, 3]], 0)
    assert batch.source.tolist() == [[5, 6, 3], [7, 3, 0]]
    assert batch.inputs.tolist() == [[2, 8, 3], [2, 9, 10]]
    assert batch.outputs.tolist() == [[8, 3, 0], [9, 10, 3]]


def test_batches_of_token_arrays_equal_those_of_lists() -> None:
    """From one array, from selected and repeated rows of it, and from two arrays joined."""
    generator = random.Random(3)
    rows = [tuple(generator.randrange(70_000) for _ in range(generator.randint(1, 30))) for _ in range(200)]
    whole, few = TokenArray.of(rows), TokenArray.of(rows[:50])
    picked = [generator.randrange(200) for _ in range(90)]
    for tokens, texts in (
        (whole, rows),
        (whole.select(picked), [rows[i] for i in picked]),
        (JoinedTokens(few, whole.select(picked)), rows[:50] + [rows[i] for i in picked]),
    ):
        assert tokens == texts
        for group in ([3], [70, 2, 51, 2], list(range(len(texts)))):
            expected = pair_batch([texts[i] for i in group], [texts[-i] for i in group], 7)
            width = max(len(texts[i]) for i in group)
            assert expected.source.tolist() == [[*texts[i], *[7] * (width - len(texts[i]))] for i in group]
            backwards = tokens.select(range(0, -len(texts), -1)) if isinstance(tokens, TokenArray) else None
            if backwards is not None:
                made = padded_pairs(tokens, backwards, group, 7)
                assert all(torch.equal(a, b) for a, b in zip(made, expected, strict=True))
            assert tokens.padded(np.array(group), 7, width).tolist() == expected.source.tolist()


def test_work_of_a_batch_does_not_grow_with_its_pairs() -> None:
    """Calls from Python: one for each pair, let alone each token, would hold up a GPU."""
    tokens = TokenArray.of([[5] * 20 for _ in range(2000)])
    counts = []
    for pairs in (2, 2000):
        events: list[str] = []
        sys.setprofile(lambda frame, event, argument, events=events: events.append(event))  # type: ignore[misc]
        padded_pairs(tokens, tokens, range(pairs), 0)
        sys.setprofile(None)
        counts.append(sum(event in ("call", "c_call") for event in events))
    assert counts[0] == counts[1] < 200


def test_random_windows_equal_the_reference() -> None:
    batches = list(random_windows(torch.arange(100, 124), 2, 5, random.Random(7)))
    starts = [0, 1, 2, 3]  # 23 predictions hold four whole windows
    random.Random(7).shuffle(starts)
    expected = [[[100 + s * 5 + i for i in range(5)] for s in starts[b : b + 2]] for b in (0, 2)]
    assert [batch.inputs.tolist() for batch in batches] == expected
    for batch in batches:
        assert torch.equal(batch.outputs, batch.inputs + 1)
        assert batch.carry is False


@pytest.mark.parametrize(("length", "batches"), [(20, 1), (21, 2), (25, 2), (11, 1), (10, 0)])
def test_random_windows_use_the_last_character_as_an_output(length: int, batches: int) -> None:
    results = list(random_windows(torch.arange(length), 2, 5, random.Random(0)))
    assert len(results) == batches
    if length == 21:
        assert max(int(batch.outputs.max()) for batch in results) == 20


def test_consecutive_windows_equal_the_reference() -> None:
    batches = list(consecutive_windows(torch.arange(26), 2, 4, offset=1))
    assert [(b.inputs.tolist(), b.outputs.tolist(), b.carry) for b in batches] == [
        ([[1, 2, 3, 4], [13, 14, 15, 16]], [[2, 3, 4, 5], [14, 15, 16, 17]], False),
        ([[5, 6, 7, 8], [17, 18, 19, 20]], [[6, 7, 8, 9], [18, 19, 20, 21]], True),
    ]


@pytest.mark.parametrize(("length", "windows"), [(25, 2), (26, 3), (33, 3), (34, 4), (9, 0), (10, 1)])
def test_consecutive_windows_use_every_complete_window(length: int, windows: int) -> None:
    results = list(consecutive_windows(torch.arange(length), 2, 4))
    assert len(results) == windows
    assert [batch.carry for batch in results] == [i > 0 for i in range(windows)]


def greedy_batches(lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int) -> list[list[int]]:
    """Pair by pair, as the first version did it; its runs must be repeatable."""
    generator = random.Random(seed * 1_000_003 + epoch)
    order = list(range(len(lengths)))
    generator.shuffle(order)
    order.sort(key=lambda i: (lengths[i][1], lengths[i][0]))
    batches: list[list[int]] = [[]]
    longest = 0
    for index in order:
        longest = max(longest, *lengths[index])
        if batches[-1] and longest * (len(batches[-1]) + 1) > budget:
            batches.append([])
            longest = max(lengths[index])
        batches[-1].append(index)
    generator.shuffle(batches)
    return batches


@pytest.mark.parametrize("longest", [3, 40, 300])
@pytest.mark.parametrize("budget", [1, 5, 60, 4096])
def test_batches_equal_the_first_version(longest: int, budget: int) -> None:
    generator = random.Random(longest * budget)
    for epoch, count in enumerate((1, 2, 17, 500)):
        lengths = [(generator.randint(1, longest), generator.randint(1, longest)) for _ in range(count)]
        assert list(batches_by_length(lengths, budget, 3, epoch)) == greedy_batches(lengths, budget, 3, epoch)


def test_overlapping_windows_begin_at_every_character() -> None:
    batches = list(random_windows(torch.arange(30), 5, 4, random.Random(1), stride=1))
    starts = sorted(int(row[0]) for batch in batches for row in batch.inputs)
    assert len(starts) == 25  # five whole batches of 26 windows
    assert len(set(starts)) == 25
    assert all(torch.equal(batch.outputs, batch.inputs + 1) for batch in batches)
    assert max(int(batch.outputs.max()) for batch in batches) <= 29
