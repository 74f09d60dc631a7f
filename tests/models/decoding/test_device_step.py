"""The step on a simulated GPU beside the decoder's plain loop on the CPU."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, cast

import pytest
import torch

from models.backends import select
from models.backends.torch.cuda_graph import Graphed, Recordable
from models.decoding.decoder import Decoder, decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import Prompt
from tests.cuda_simulator import Copy, SimulatedCuda, simulated_cuda
from tests.models import tiny

RULES = TokenRules(3, (0, 1))
KINDS: list[dict[str, Any]] = [
    {},
    {"scores": False},
    {"logprobs": True},
    {"temperature": 0.9},
    {"temperature": 1.2, "top_k": 5},
    {"temperature": 0.8, "top_p": 0.7, "top_k": 12, "logprobs": True},
    {"beam_size": 2, "n_best": 2},
    {"beam_size": 3, "length_penalty": 0.3},
    {"beam_size": 4, "n_best": 4, "streamed": False},
]
PENALTIES: list[dict[str, Any]] = [
    {"frequency_penalty": 0.7, "presence_penalty": 0.4},
    {"repetition_penalty": 1.8, "temperature": 0.7, "top_p": 0.9},
]
FOR_THE_HOST: list[dict[str, Any]] = [
    {"no_repeat_ngram_size": 2},
    {"logprobs": True, "top_logprobs": 3},
    {"beam_size": 3, "no_repeat_ngram_size": 2},
    {"beam_size": 4, "required": (((7,), (8, 9)),)},
]


@pytest.fixture
def cuda() -> Iterator[SimulatedCuda]:
    with simulated_cuda() as cuda:
        yield cuda


def network(translator: bool, device: str = "cpu") -> Any:
    return (tiny.transformer() if translator else tiny.recurrent()).to(device)


def decoder_on(device: str, translator: bool, slots: int, rules: TokenRules = RULES) -> Decoder:
    made: Any = select.decodable(network(translator, device))
    made = Graphed(cast(Recordable, made)) if device == "cuda" else made
    return Decoder(made, rules, slots=slots, source_length=8, target_length=80)


def requests(translator: bool, kinds: list[dict[str, Any]], count: int) -> list[tuple[int, Prompt, DecodingOptions]]:
    rng = random.Random(7)
    made = []
    for number in range(count):
        source = tuple(rng.randrange(4, 12) for _ in range(rng.randrange(1, 9)))
        text = tuple(rng.randrange(1, 19) for _ in range(rng.randrange(1, 9)))
        kind = kinds[number % len(kinds)]
        options = DecodingOptions(**{"max_new_tokens": rng.choice([1, 2, 9, 20]), "seed": number, **kind})
        made.append((number, Prompt(source, (2,)) if translator else Prompt((), text), options))
    return made


class Answers:
    """What a decoder wrote: hypotheses, and the tokens and log-probabilities that it streamed."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder, self.hypotheses = decoder, dict[int, list[Hypothesis]]()
        self.tokens, self.nats = dict[int, list[int]](), dict[int, list[float]]()

    def step(self) -> None:
        result = self.decoder.step()
        for key, token in result.tokens:
            self.tokens.setdefault(key, []).append(token)
        for key, nats in result.log_probabilities.items():
            self.nats.setdefault(key, []).append(nats)
        self.hypotheses.update(result.finished)

    def run(self, arrivals: list[tuple[int, Prompt, DecodingOptions]], seed: int = 3) -> Answers:
        """Requests arrive in bursts as rows become free."""
        rng, waiting = random.Random(seed), list(arrivals)
        while waiting or self.decoder.requests:
            room, joining = self.decoder.free, []
            while waiting and waiting[0][2].beam <= room and rng.random() < 0.7:
                room -= waiting[0][2].beam
                joining.append(waiting.pop(0))
            self.decoder.join(joining)
            self.step()
        return self


def check_same(found: Answers, expected: Answers) -> None:
    assert found.hypotheses.keys() == expected.hypotheses.keys()
    for key, hypotheses in expected.hypotheses.items():
        assert len(found.hypotheses[key]) == len(hypotheses)
        for one, other in zip(found.hypotheses[key], hypotheses, strict=True):
            assert (one.tokens, one.finished, one.unmet) == (other.tokens, other.finished, other.unmet), key
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4, nan_ok=True)
            assert one.score == pytest.approx(other.score, abs=1e-4, nan_ok=True)
            assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities, abs=1e-4)
            assert [[t for t, _ in top] for top in one.top or ()] == [[t for t, _ in top] for top in other.top or ()]
    assert found.tokens == expected.tokens
    assert found.nats.keys() == expected.nats.keys()
    for key, nats in expected.nats.items():
        assert found.nats[key] == pytest.approx(nats, abs=1e-4)


@pytest.mark.parametrize("translator", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(RULES, id="plain"),
        *(
            pytest.param(rules, marks=pytest.mark.slow, id=name)
            for name, rules in {
                "suppressed tokens keep their share": TokenRules(3, (0, 1), renormalise=False),
                "forced end": TokenRules(3, (0,), forced_end=True),
                "no end": TokenRules(None),
            }.items()
        ),
    ],
)
def test_mixed_requests_are_answered_as_on_the_host(cuda: SimulatedCuda, translator: bool, rules: TokenRules) -> None:
    arrivals = requests(translator, [*KINDS, *PENALTIES], 22)
    expected = Answers(decoder_on("cpu", translator, 13, rules)).run(arrivals)
    found = Answers(decoder_on("cuda", translator, 13, rules)).run(arrivals)
    check_same(found, expected)


@pytest.mark.parametrize("translator", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_requests_for_the_host_come_and_go(cuda: SimulatedCuda, translator: bool) -> None:
    """Whole batches change between the device's and the host's step, with requests of both under way."""
    arrivals = requests(translator, [*KINDS, *PENALTIES, *FOR_THE_HOST, *KINDS], 24)
    expected = Answers(decoder_on("cpu", translator, 13)).run(arrivals)
    found = Answers(decoder_on("cuda", translator, 13)).run(arrivals)
    check_same(found, expected)
    assert any(variant is None for _, variant in found.decoder.state.recordings)
    assert any(variant is not None for _, variant in found.decoder.state.recordings)


@pytest.mark.parametrize("kind", [{}, {"temperature": 0.9, "top_k": 5, "top_p": 0.9}, {"beam_size": 4}, PENALTIES[1]])
def test_a_steady_step_waits_for_nothing(cuda: SimulatedCuda, kind: dict[str, Any]) -> None:
    decoder = decoder_on("cuda", True, 16, TokenRules(None))
    options = DecodingOptions(max_new_tokens=40, streamed=False, **kind)
    decoder.join([(number, Prompt((5, 6, 7), (2,)), options) for number in range(16 // options.beam)])
    for _ in range(4):
        decoder.step()
    cuda.reset_counts()
    for _ in range(10):
        decoder.step()
    counts = cuda.counts
    assert counts.waits == 0, counts.sites
    assert counts.graph_launches == counts.event_waits == 10
    assert counts.copies == {Copy("D2H", pinned=True, blocking=False): 10}
    assert counts.launches == 0


@pytest.mark.parametrize("kind", [{}, {"temperature": 0.9, "top_k": 5}, {"beam_size": 4}, PENALTIES[1]])
def test_a_join_beside_a_running_batch_makes_no_blocking_copy(cuda: SimulatedCuda, kind: dict[str, Any]) -> None:
    decoder = decoder_on("cuda", True, 16, TokenRules(None))
    options = DecodingOptions(max_new_tokens=40, **kind)
    joined = [(number, Prompt((5, 6, 7)[: 1 + number % 3], (2,)), options) for number in range(3)]
    for _ in range(2):  # the graphs are recorded the first time
        decoder.join(joined[:1])
        for _ in range(4):
            decoder.step()
        cuda.reset_counts()
        decoder.join(joined[1:])
        decoder.step()
        for key in range(3):
            decoder.leave(key)
    assert cuda.counts.waits == 0, cuda.counts.sites


def test_a_beam_for_the_host_joins_after_the_device_has_finished_all(cuda: SimulatedCuda) -> None:
    arrivals = requests(True, [{}], 2) + requests(True, [FOR_THE_HOST[2]], 5)[2:]
    expected, found = Answers(decoder_on("cpu", True, 8)), Answers(decoder_on("cuda", True, 8))
    for answers in (expected, found):
        for arrival in arrivals:
            answers.decoder.join([arrival])
            for _ in range(100):
                answers.step()
            assert not answers.decoder.requests
    check_same(found, expected)


def test_a_cancelled_request_gives_its_rows_to_another_at_once(cuda: SimulatedCuda) -> None:
    """The results of the step in flight are of the request that left; the one that follows it in the same rows must
    not see them."""
    arrivals = requests(True, KINDS, 24)
    (expected,) = [Answers(decoder_on("cpu", True, 16)).run(arrivals).hypotheses]
    decoder, rng = decoder_on("cuda", True, 8), random.Random(1)
    answers, waiting = Answers(decoder), list(arrivals)
    again = set[int]()
    while waiting or decoder.requests:
        while waiting and waiting[0][2].beam <= decoder.free:
            decoder.join([waiting.pop(0)])
        answers.step()
        for key in list(decoder.requests):
            if key not in again and rng.random() < 0.3:
                free = decoder.free
                decoder.leave(key)
                assert decoder.free > free
                again.add(key)
                waiting.insert(0, arrivals[key])
                answers.tokens.pop(key, None)
                answers.nats.pop(key, None)
    assert len(again) > 5
    assert {key: [h.tokens for h in found] for key, found in answers.hypotheses.items()} == {
        key: [h.tokens for h in found] for key, found in expected.items()
    }


def test_the_device_stops_within_two_steps_of_a_cancellation(cuda: SimulatedCuda) -> None:
    decoder = decoder_on("cuda", True, 4, TokenRules(None))
    decoder.join([(1, Prompt((5,), (2,)), DecodingOptions(max_new_tokens=60))])
    for _ in range(5):
        decoder.step()
    decoder.leave(1)
    cuda.reset_counts()
    for _ in range(4):
        result = decoder.step()
        assert not (result.tokens or result.finished)
    assert cuda.counts.graph_launches == 0  # the step in flight was the last
    decoder.join([(2, Prompt((5,), (2,)), DecodingOptions(max_new_tokens=3))])
    answers = Answers(decoder).run([])
    assert answers.hypotheses[2][0].tokens == tuple(answers.tokens[2])


def test_no_step_follows_the_last_token_of_all(cuda: SimulatedCuda) -> None:
    decoder = decoder_on("cuda", True, 4, TokenRules(None))
    decoder.join([(1, Prompt((5,), (2,)), DecodingOptions(max_new_tokens=6))])
    cuda.reset_counts()
    steps = 0
    while decoder.requests:
        decoder.step()
        steps += 1
    eager = 2  # the first step of each of the two shapes up to 6 tokens is not a replay
    assert steps == 7
    assert cuda.counts.graph_launches in (6 - eager, 6 - 1)


def test_results_of_offline_decoding_are_the_same(cuda: SimulatedCuda) -> None:
    arrivals = requests(True, KINDS, 16)
    prompts, options = [prompt for _, prompt, _ in arrivals], [each for _, _, each in arrivals]

    class Served:
        def decodable(self, precision: str = "fp32") -> Any:
            return Graphed(cast(Recordable, select.decodable(network(True, "cuda"))))

    plain = decode(network(True), RULES, prompts, options, slots=13)
    found = decode(cast(Any, Served()), RULES, prompts, options, slots=13)
    assert [[h.tokens for h in each] for each in found] == [[h.tokens for h in each] for each in plain]


def test_a_join_without_memory_leaves_nothing_behind(cuda: SimulatedCuda) -> None:
    """Each allocation of a join fails once; the same request, of the same key, then joins all the same."""
    decoder = decoder_on("cuda", True, slots=12)
    running = requests(True, [{"temperature": 0.9}], 4)
    late = [
        (90, Prompt((5, 6), (2,)), DecodingOptions(max_new_tokens=12, frequency_penalty=0.7, seed=3)),
        (91, Prompt((5, 7), (2,)), DecodingOptions(max_new_tokens=12, beam_size=3)),
    ]
    decoder.join(running)
    answers, failures = Answers(decoder), 0
    answers.step()
    while True:
        cuda.fail_allocation_after(failures)
        try:
            decoder.join(late)
        except torch.OutOfMemoryError:
            assert len(decoder.owners) == len(decoder.requests)
            failures += 1
        else:
            break
    cuda.replace()
    while decoder.requests:
        answers.step()
    assert failures > 10
    every = [*running, *late]
    expected = decode(network(True), RULES, [prompt for _, prompt, _ in every], [options for _, _, options in every])
    for (key, _, _), hypotheses in zip(every, expected, strict=True):
        assert [h.tokens for h in answers.hypotheses[key]] == [h.tokens for h in hypotheses]
