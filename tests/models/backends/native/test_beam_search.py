"""Beams that a network advances itself, several steps a call: the results of single steps, to the bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backends import select
from models.decoding import decoder as decoding
from models.decoding.decoder import Decoder
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import AdvancesBeams, Decodable, Prompt
from tests.models import tiny

pytestmark = pytest.mark.usefixtures("library")
NETWORKS = ("pre", "marian")
RULES = (
    TokenRules(2, (0, 1)),
    TokenRules(2, (0, 1), renormalise=False),
    TokenRules(2, (0,), forced_end=True),
    TokenRules(2, (0, 1), renormalise=False, forced_end=True),
    TokenRules(2),
    TokenRules(None, (0,)),
)


class SingleSteps:
    """A network without the beams of its own."""

    def __init__(self, network: Any) -> None:
        self.network, self.device = network, network.device

    def allocate(self, slots: int, source_length: int, target_length: int) -> Any:
        return self.network.allocate(slots, source_length, target_length)

    def prefill(self, state: Any, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        self.network.prefill(state, rows, prompts)

    def step(self, state: Any, tokens: Tensor, group: int = 1) -> Tensor:
        logits: Tensor = self.network.step(state, tokens, group)
        return logits

    def copy(
        self, state: Any, sources: Sequence[int], destinations: Sequence[int], since: Sequence[int] | None = None
    ) -> None:
        self.network.copy(state, sources, destinations, since)


def native(name: str, seed: int = 0) -> Decodable:
    options = {**tiny.OPTIONS[name], **({"pad": 0} if name == "marian" else {})}
    network = select.decodable(tiny.transformer(seed, **options), "int8")
    assert isinstance(network, AdvancesBeams)
    return network


def requests(seed: int, count: int, width: int | None = None) -> list[tuple[Prompt, DecodingOptions]]:
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        source = tuple(random.integers(3, tiny.SOURCE, random.integers(1, 9)).tolist())
        prefix = (1, *random.integers(3, tiny.SOURCE, random.integers(0, 4)).tolist())
        beam = width or int(random.choice([2, 3, 4]))
        options = DecodingOptions(
            beam_size=beam,
            n_best=beam,
            max_new_tokens=int(random.integers(1, 18)),
            length_penalty=float(random.choice([0.0, 0.6, 1.0, 2.0, -1.0])),
            streamed=False,
        )
        made.append((Prompt(source, prefix), options))
    return made


def run(
    network: Decodable, rules: TokenRules, asked: Sequence[tuple[Prompt, DecodingOptions]], slots: int, seed: int = 0
) -> tuple[dict[int, list[Hypothesis]], int, int]:
    """Requests join at random moments, and every fifth leaves before its end. Returns the results of those that stay,
    steps, and calls."""
    decoder = Decoder(network, rules, slots=slots, source_length=9, target_length=24)
    random, waiting, results = np.random.default_rng(seed), list(enumerate(asked)), dict[int, list[Hypothesis]]()
    steps = calls = 0
    while waiting or decoder.requests:
        while waiting and waiting[0][1][1].beam <= decoder.free and (random.random() < 0.5 or not decoder.requests):
            key, (prompt, options) = waiting.pop(0)
            decoder.join([(key, prompt, options)])
        result = decoder.step()
        steps, calls = steps + result.steps, calls + 1
        results.update(result.finished)
        if random.random() < 0.2:
            for key in [key for key in decoder.requests if key % 5 == 4][:1]:
                decoder.leave(key)
    return {key: found for key, found in results.items() if key % 5 != 4}, steps, calls


def exactly(found: dict[int, list[Hypothesis]], expected: dict[int, list[Hypothesis]]) -> None:
    assert found.keys() == expected.keys()
    for key, hypotheses in expected.items():
        assert [h.tokens for h in found[key]] == [h.tokens for h in hypotheses]
        # NaN differs from itself, so texts are compared
        assert repr(found[key]) == repr(hypotheses)


@pytest.mark.every_value
@pytest.mark.parametrize(("name", "rules"), list(zip(NETWORKS * 3, RULES, strict=True)), ids=range(len(RULES)))
def test_results_are_those_of_single_steps(name: str, rules: TokenRules) -> None:
    network, ended = native(name, 3), set[bool]()
    # requests: several times as many as have room at once, but for the third, whose 18 beams step together
    for end, width, slots, count in ((5, 4, 8, 10), (8, 3, 12, 12), (11, 2, 36, 18), (14, None, 16, 16)):
        kept = rules if rules.eos is None else replace(rules, eos=end)  # some networks like some tokens
        asked = requests(end, count, width)
        found, steps, calls = run(network, kept, asked, slots)
        expected, single, single_calls = run(SingleSteps(network), kept, asked, slots)
        exactly(found, expected)
        assert single == single_calls
        assert steps > calls or width is None, "several steps a call, or else nothing is shown"
        ended |= {h.finished for hypotheses in found.values() for h in hypotheses}
    assert ended == ({False} if rules.eos is None else {True, False})


@pytest.mark.every_value
@pytest.mark.parametrize("kept", [{2}, {2, 7}, {7}])
def test_hypotheses_that_nothing_can_continue_end_as_in_single_steps(kept: set[int]) -> None:
    network, rules = native("pre"), TokenRules(2, tuple({*range(tiny.TARGET)} - kept))
    asked = requests(5, 12, 4)
    exactly(run(network, rules, asked, 12)[0], run(SingleSteps(network), rules, asked, 12)[0])


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_calls_end_in_time(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "CALL_S", seconds)
    network = native("pre")
    asked = [(prompt, replace(options, max_new_tokens=17)) for prompt, options in requests(3, 4, 4)]
    found, steps, calls = run(network, RULES[0], asked, 16)
    exactly(found, run(SingleSteps(network), RULES[0], asked, 16)[0])
    assert (steps == calls) == (seconds == 0)


def test_no_step_is_taken_for_streams_terms_mixed_widths_or_other_rows() -> None:
    network = native("pre")
    prompt = Prompt((5, 6, 7), (1,))
    beam = DecodingOptions(beam_size=3, max_new_tokens=12, streamed=False)
    others = [
        (replace(beam, streamed=True), ()),
        (replace(beam, required=(((5,),),)), ()),
        (replace(beam, no_repeat_ngram_size=2), ()),
        (beam, (DecodingOptions(beam_size=2, max_new_tokens=12, streamed=False),)),
        (beam, (DecodingOptions(max_new_tokens=12, streamed=False),)),
        (beam, (replace(beam, streamed=True),)),
    ]
    for first, more in others:
        finished = []
        for given in (network, SingleSteps(network)):
            decoder = Decoder(given, RULES[0], slots=8, source_length=9, target_length=24)
            decoder.join([(key, prompt, options) for key, options in enumerate((first, *more))])
            done: dict[int, list[Hypothesis]] = {}
            while len(decoder.requests) == 1 + len(more):
                result = decoder.step()
                assert result.steps == 1
                done.update(result.finished)
            finished.append(done)
        exactly(*finished)


def test_weights_that_are_no_numbers_end_as_in_single_steps() -> None:
    network = tiny.transformer(**tiny.OPTIONS["pre"])
    with torch.no_grad():
        network.decoder_norm.weight.fill_(math.nan)
    made = select.decodable(network, "int8")
    asked = requests(1, 4, 4)
    exactly(run(made, RULES[0], asked, 16)[0], run(SingleSteps(made), RULES[0], asked, 16)[0])


def test_what_does_not_fit_is_refused() -> None:
    """The arrays come from Python, and are looked at before they are used."""
    network: Any = native("pre")
    beam = DecodingOptions(beam_size=3, max_new_tokens=12, streamed=False)

    def after(change: Any) -> None:
        decoder = Decoder(network, RULES[0], slots=6, source_length=9, target_length=24)
        decoder.join([(0, Prompt((5, 6), (1,)), beam), (1, Prompt((5, 6), (1,)), beam)])
        (beams,) = decoder.beams.values()
        change(decoder, beams)
        decoder.step()

    def rows(decoder: Decoder, beams: Any) -> None:
        beams.rows = beams.rows + 3

    def limits(decoder: Decoder, beams: Any) -> None:
        beams.limits[1] = 99

    def token(decoder: Decoder, beams: Any) -> None:
        decoder.rows.feed[3] = 99

    for change in (rows, limits, token):
        with pytest.raises(IndexError):
            after(change)
