"""The choice of tokens as one kernel, interpreted, beside the rule of `models.backends.torch.token_choice`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backends.cuda.launch import Launch, Launcher
from models.backends.cuda.transformer_step import choice_launch
from models.backends.torch.token_choice import OPTIONS
from tests.models.backends.cuda import reference
from tests.models.decoding.draws import CUTS, Draw, Options, sampled, tensors

INFINITY = float("inf")


class Chosen(NamedTuple):
    tokens: Tensor
    log_probabilities: Tensor
    fed: Tensor
    written: Tensor


def choose(
    launcher: Launcher, logits: Tensor, rows: list[Draw], suppressed: tuple[int, ...] = (), *, renormalise: bool = True
) -> Chosen:
    count = len(rows)
    options = tensors([row for row, _ in rows])
    table = torch.stack([options[name].view(torch.long) for name in OPTIONS])
    written = torch.arange(count) % 3
    uniform = torch.full((count + 1, 3), torch.nan, dtype=torch.float64)
    uniform[torch.arange(count), written] = torch.tensor([number for _, number in rows], dtype=torch.float64)
    fed, results = torch.full((count + 1,), -1), torch.full((2, count), torch.nan)
    tables = torch.tensor(suppressed, dtype=torch.long), fed, written, table, uniform, results
    launcher(
        choice_launch(logits.clone(), *tables, renormalise=renormalise, draw=bool((options["temperature"] > 0).any()))
    )
    return Chosen(results[0].long(), results[1], fed, written)


def expected(logits: Tensor, rows: list[Draw], suppressed: tuple[int, ...] = ()) -> Tensor:
    logits = logits.index_fill(1, torch.tensor(suppressed, dtype=torch.long), -INFINITY)
    heat = tensors([row for row, _ in rows])["temperature"]
    return torch.where(heat > 0, torch.tensor(sampled(logits, rows)), logits.argmax(dim=-1))


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return 3 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


GREEDY: Options = {"temperature": 0.0}
KINDS = [GREEDY, *({**cut, "temperature": 1.3} for cut in CUTS), {"temperature": 0.3}, {"temperature": 1e-30}]


def check_mixed(launcher: Launcher, rows: list[Draw]) -> None:
    logits = numbers(len(rows), 301)
    chosen = choose(launcher, logits, rows, (0, 17))
    assert torch.equal(chosen.tokens, expected(logits, rows, (0, 17)))
    assert torch.equal(chosen.fed[:-1], chosen.tokens) and chosen.fed[-1] == -1
    assert torch.equal(chosen.written, torch.arange(len(rows)) % 3 + 1)


def test_mixed_rows_choose_as_sampling_on_the_host(interpreter: Launcher) -> None:
    check_mixed(interpreter, [(kind, 0.77) for kind in (GREEDY, {}, {"temperature": 1.3, "top_k": 40, "top_p": 0.6})])


@pytest.mark.slow
def test_rows_at_the_edges_choose_as_sampling_on_the_host(interpreter: Launcher) -> None:
    check_mixed(interpreter, [(kind, edge) for kind in KINDS for edge in (0.0, 0.3, 1 - 2**-53)])


@pytest.mark.slow
def test_many_rows_choose_as_sampling_on_the_host(interpreter: Launcher) -> None:
    chance = np.random.default_rng(2)
    rows = [
        ({**CUTS[chance.integers(len(CUTS))], "temperature": float(chance.choice([0.5, 1.0, 2.0]))}, chance.random())
        for _ in range(120)
    ]
    logits = numbers(len(rows), 2500)
    logits[::2] = logits[::2].round()  # many of them equal
    assert torch.equal(choose(interpreter, logits, rows).tokens, expected(logits, rows))


def test_equal_logits_are_taken_by_index(interpreter: Launcher) -> None:
    logits = numbers(1, 64, seed=3).round().expand(3, 64).contiguous()
    logits[:, 5], logits[:, 9] = -0.0, 0.0  # are equal
    cuts = ({"top_p": 0.7}, 0.5), ({"top_k": 9}, 0.99), ({"top_k": 9, "top_p": 0.97}, 0.8)
    rows: list[Draw] = [({**cut, "temperature": 1.5}, number) for cut, number in cuts]
    assert torch.equal(choose(interpreter, logits, rows).tokens, expected(logits, rows))
    assert choose(interpreter, torch.zeros(2, 40), [(GREEDY, 0.5)] * 2).tokens.tolist() == [0, 0]


@pytest.mark.parametrize("renormalise", [True, False])
def test_log_probabilities_of_the_chosen_tokens(interpreter: Launcher, renormalise: bool) -> None:
    logits, suppressed = numbers(3, 3000, seed=4), (2, 5, 2999)
    chosen = choose(interpreter, logits, [(GREEDY, 0.5)] * 3, suppressed, renormalise=renormalise)
    kept = logits.index_fill(1, torch.tensor(suppressed), -INFINITY)
    whole = (kept if renormalise else logits).double().logsumexp(dim=-1)
    assert torch.equal(chosen.tokens, kept.argmax(dim=-1))
    torch.testing.assert_close(chosen.log_probabilities.double(), kept.amax(dim=-1) - whole, rtol=0, atol=2e-6)


def test_rows_without_a_finite_logit_choose_a_token_of_the_vocabulary(interpreter: Launcher) -> None:
    logits = torch.full((3, 50), -INFINITY)
    logits[1], logits[2, 30:] = torch.nan, torch.nan
    chosen = choose(interpreter, logits, [({}, 0.5)] * 3)
    assert bool(((chosen.tokens >= 0) & (chosen.tokens < 50)).all())


def test_the_reference_chooses_as_sampling_on_the_host() -> None:
    rows = [(kind, 0.013 * n) for n, kind in enumerate(KINDS * 4)]
    logits = numbers(len(rows), 90, seed=5)
    assert torch.equal(choose(reference.launch, logits, rows, (3,)).tokens, expected(logits, rows, (3,)))


@pytest.mark.parametrize("renormalise", [True, False])
def test_likeliest_tokens_of_a_row_in_order(interpreter: Launcher, renormalise: bool) -> None:
    logits, suppressed, best = numbers(3, 300, seed=6).round(decimals=1), torch.tensor([3, 44]), 8
    logits[2, 5:] = -INFINITY

    def run(launcher: Launcher) -> tuple[Tensor, Tensor, Tensor]:
        values, tokens, written = torch.zeros(3, best), torch.zeros(3, best, dtype=torch.long), torch.arange(4)
        arguments = logits.clone(), suppressed, written, values, tokens, 300, 2, best
        constants = ("RENORMALISE", int(renormalise)), ("BLOCK", 128)
        launcher(Launch("top_tokens", (3, 1, 1), arguments, constants))
        return values, tokens, written

    (values, tokens, written), (expected_values, expected_tokens, _) = run(interpreter), run(reference.launch)
    torch.testing.assert_close(values, expected_values, rtol=0, atol=2e-6)
    finite = expected_values > -INFINITY
    assert torch.equal(tokens[finite], expected_tokens[finite])
    assert written.tolist() == [1, 2, 3, 3]


@pytest.mark.parametrize("end", [7, -1])
def test_continuations_of_beams_of_different_widths(interpreter: Launcher, end: int) -> None:
    beams, width, best, slots = 2, 3, 6, 9
    read = torch.tensor([4, 2, 3, 0, 1, 0])
    write = torch.tensor([4, 2, 3, 0, 1, slots])  # the second beam has two hypotheses
    values = -numbers(slots, best, seed=8).abs().sort(dim=1).values.round(decimals=1)
    tokens = torch.arange(slots * best).view(slots, best) % 11

    def run(launcher: Launcher) -> list[Tensor]:
        totals, fed, parents = -torch.arange(slots + 1.0).double() / 4, torch.full((slots + 1,), -1), torch.arange(10)
        totals[1] = -INFINITY
        results = torch.zeros(3, beams, 2 * width)
        late = torch.arange(2 * width) >= torch.tensor([[3], [2]])
        sizes = slots, width, best, 2 * width, end, beams
        arguments = values, tokens, read, write, late, totals, fed, parents, results, *sizes
        launcher(Launch("continue_beams", (beams, 1, 1), arguments, (("MEMBERS", 4), ("CANDIDATES", 8))))
        return [results, totals[:-1], fed[:-1], parents[:-1]]

    for ours, theirs in zip(run(interpreter), run(reference.launch), strict=True):
        assert torch.equal(ours, theirs)


def test_a_beam_whose_continuations_all_end_still_has_as_many(interpreter: Launcher) -> None:
    rows = torch.arange(2)

    def run(launcher: Launcher) -> list[Tensor]:
        totals, fed, parents, results = torch.zeros(3).double(), torch.zeros(3).long(), torch.arange(3), torch.zeros(12)
        values, tokens = torch.tensor([[-1.0, -2.0], [-1.5, -3.0]]), torch.tensor([[5, 5], [5, 8]])
        late = torch.tensor([[False, True, True, True]])
        arguments = values, tokens, rows, rows, late, totals, fed, parents, results, 2, 2, 2, 4, 5, 1
        launcher(Launch("continue_beams", (1, 1, 1), arguments, (("MEMBERS", 2), ("CANDIDATES", 2))))
        return [results, totals, fed, parents]

    ours = run(interpreter)
    assert ours[2].tolist()[:2] == [8, 5] and ours[3].tolist()[:2] == [1, 0]
    assert all(map(torch.equal, ours, run(reference.launch)))
