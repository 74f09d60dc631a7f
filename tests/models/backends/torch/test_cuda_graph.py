"""Steps of rounded shapes, recorded and replayed. Here a recording only runs the step again; what CUDA adds to that
is tested on a GPU (tests/gpu)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from models.backends import select
from models.backends.torch.cuda_graph import Graphed, Recordable, Recording, StepShape
from models.decoding.decoder import Decoder, decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import Decodable, Prompt
from tests.combinations import slow_but
from tests.cuda_simulator import simulated_cuda
from tests.cuda_simulator.device import WORKSPACE
from tests.models import tiny


class Rerun:
    """Recordings that are like graphs: nothing runs when they are made, and each replay writes to the same logits."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def record(self, step: Callable[[], Tensor]) -> Recording:
        recording = Recording(lambda: None, torch.empty(0))

        @torch.inference_mode()
        def replay() -> None:
            logits = step()
            if recording.logits.numel():
                recording.logits.copy_(logits)
            else:
                recording.logits = logits

        recording.replay = replay
        return recording


class Served:
    """A network with the given decodable form."""

    def __init__(self, decodable: Any) -> None:
        self.made = decodable

    def decodable(self, precision: str = "fp32") -> Decodable:
        return cast(Decodable, self.made)


def requests(translator: bool, count: int = 40) -> tuple[list[Prompt], list[DecodingOptions]]:
    rng = random.Random(5)
    prompts, options = [], []
    for number in range(count):
        source = tuple(rng.randrange(4, 12) for _ in range(rng.randrange(1, 9)))
        text = tuple(rng.randrange(1, 19) for _ in range(rng.randrange(1, 9)))
        prompts.append(Prompt(source, (2,)) if translator else Prompt((), text))
        kind: dict[str, Any] = rng.choice(
            [{}, {"beam_size": 4}, {"beam_size": 3}, {"temperature": 0.9, "seed": number}]
        )
        options.append(DecodingOptions(max_new_tokens=rng.choice([2, 12, 60]), **kind))
    return prompts, options


@pytest.mark.parametrize("translator", slow_but([True, False], True))
def test_recorded_steps_write_the_same(translator: bool) -> None:
    network = tiny.transformer() if translator else tiny.recurrent()
    prompts, options = requests(translator)
    rules = TokenRules(3, (0,))
    graphed = Graphed(cast(Recordable, select.decodable(network)), Rerun)
    plain = decode(network, rules, prompts, options, slots=13)
    results = decode(Served(graphed), rules, prompts, options, slots=13)
    assert [[h.tokens for h in result] for result in results] == [[h.tokens for h in each] for each in plain]


def test_few_shapes_are_recorded_and_rows_without_a_request_stay_finite() -> None:
    """More steps than a slot has positions: unused rows are stepped too, and must neither write outside their slots
    nor affect the next request in them."""
    network = tiny.transformer()
    graphed = Graphed(cast(Recordable, select.decodable(network)), Rerun)
    decoder = Decoder(graphed, TokenRules(None, (0,)), slots=8, source_length=8, target_length=40)
    prompt, options = Prompt((5, 6, 7), (2,)), DecodingOptions(max_new_tokens=40)
    for number in range(3):
        decoder.join([((number, i), prompt, options) for i in range(5)])  # rounded up to 8 rows
        while decoder.requests:
            decoder.step()
    state = decoder.state
    assert {shape for shape, _ in state.recordings} == {StepShape(8, 1, 32, 8), StepShape(8, 1, 40, 8)}
    assert all(bool(layer.both.isfinite().all()) for layer in state.inner.own)
    decoder.join([(i, prompt, options) for i in range(8)])
    finished = []
    while decoder.requests:
        finished += decoder.step().finished
    (alone,) = decode(network, TokenRules(None, (0,)), [prompt], options)
    assert {h[0].tokens for _, h in finished} == {alone[0].tokens}


def test_warming_up_records_every_number_of_rows() -> None:
    network = tiny.transformer()
    graphed = Graphed(cast(Recordable, select.decodable(network)), Rerun)
    decoder = Decoder(graphed, TokenRules(3, (0,)), slots=22, source_length=16, target_length=64)
    assert decoder.warm_up([4], sampling=True) == len(decoder.state.recordings)
    recorded = [(shape.rows, shape.group, variant) for shape, variant in decoder.state.recordings]
    plain = {(rows, group) for rows, group, variant in recorded if variant is None}
    assert plain == {(n, 1) for n in (1, 2, 4, 8, 16, 22)} | {(n, 4) for n in (4, 8, 16, 20)}
    alone = {(n, 1, choice, 0, 0) for n in (1, 2, 4, 8, 16, 22) for choice in ("greedy", "sampled", "cut")}
    beams = {(n * 4, 4, "none", beams, 4) for n, beams in ((1, 1), (2, 2), (4, 4), (5, 8))}
    assert {(rows, group, *variant) for rows, group, variant in recorded if variant} == alone | beams


def test_rounding() -> None:
    assert StepShape(5, 1, 33, 3).rounded(64, 100, 50) == StepShape(8, 1, 64, 32)
    assert StepShape(60, 1, 70, 40).rounded(60, 100, 50) == StepShape(60, 1, 100, 50)
    assert StepShape(12, 4, 1, 1).rounded(64, 100, 50) == StepShape(16, 4, 32, 32)
    assert StepShape(20, 4, 1, 1).rounded(22, 100, 50) == StepShape(20, 4, 32, 32)


def graphed_on(device: str, translator: bool = True) -> Graphed:
    network = tiny.transformer() if translator else tiny.recurrent()
    return Graphed(cast(Recordable, select.decodable(network.to(device))))


def tokens(results: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.tokens for hypothesis in result] for result in results]


@pytest.mark.parametrize("translator", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_model_on_another_device_than_the_current_one(translator: bool) -> None:
    """Captures on the current device would record nothing, and answer every step with the first one's logits."""
    prompts, options = requests(translator, 12)
    rules = TokenRules(3, (0,))
    plain = decode(tiny.transformer() if translator else tiny.recurrent(), rules, prompts, options, slots=13)
    with simulated_cuda(devices=2) as cuda:
        assert torch.cuda.current_device() == 0
        results = decode(Served(graphed_on("cuda:1", translator)), rules, prompts, options, slots=13)
        assert cuda.counts.graph_launches > 0
    assert tokens(results) == tokens(plain)


@pytest.mark.parametrize("frees_workspaces", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_graphs_of_two_models_do_not_share_memory(frees_workspaces: bool) -> None:
    """Models are loaded and unloaded in turn. A pool for all of them is refused once all graphs in it are freed, or
    gives the memory of one model's graphs to another."""
    prompts, options = requests(True, 6)
    rules = TokenRules(3, (0,))
    plain = tokens(decode(tiny.transformer(), rules, prompts, options, slots=8))
    with simulated_cuda(frees_workspaces=frees_workspaces):
        first, second = (Served(graphed_on("cuda:0")) for _ in range(2))
        states = [served.made.allocate(8, 8, 61) for served in (first, second)]
        for served, state in zip((first, second), states, strict=True):
            assert served.made.warm_up(state) == 4
        del states[0], state
        torch.cuda.empty_cache()
        assert tokens(decode(first, rules, prompts, options, slots=8)) == plain
        prompt = Prompt((5, 6, 7), (2,))
        second.made.prefill(states[0], range(4), [prompt] * 4)
        for _ in range(40):  # a recorded shape, then a longer one
            logits = second.made.step(states[0], torch.full((4,), 2, device="cuda:0"))
        assert logits.isfinite().all()
        states.clear()
        torch.cuda.empty_cache()
        assert tokens(decode(first, rules, prompts, options, slots=8)) == plain


def test_without_memory_for_a_graph_its_steps_run_without_one(caplog: pytest.LogCaptureFixture) -> None:
    prompts, options = requests(True, 12)
    rules = TokenRules(3, (0,))
    plain = tokens(decode(tiny.transformer(), rules, prompts, options, slots=8))
    with simulated_cuda() as cuda:
        graphed = graphed_on("cuda:0")
        state = graphed.allocate(8, 8, 61)
        cuda.fail_allocation_after(5, in_captures=True)
        assert graphed.warm_up(state) == 3  # of 4
        (record,) = caplog.records
        assert record.getMessage() == "no memory for the graph of 8 rows of 32 tokens: such steps run without one"
        assert graphed.warm_up(state) == 3  # the graph of 8 rows is not tried again
        assert cuda.counts.recorded_graphs == 4  # the failed capture among them
        cuda.fail_allocation_after(9, times=1000, in_captures=True)
        assert tokens(decode(Served(graphed), rules, prompts, options, slots=8)) == plain
        assert cuda.counts.launches > 1000
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_no_two_models_capture_on_one_stream() -> None:
    """PyTorch has 32 streams and hands them out in turn; a model may outlive more than 32 others."""
    with simulated_cuda(frees_workspaces=True):
        lasting, others = graphed_on("cuda:0"), graphed_on("cuda:0")
        state = lasting.allocate(1, 8, 61)
        lasting.warm_up(state)
        for _ in range(33):
            other = others.allocate(1, 8, 61)
            others.warm_up(other)
            del other
        lasting.prefill(state, range(1), [Prompt((5, 6, 7), (2,))])
        for _ in range(34):  # recorded shapes and a new one, then the former again
            lasting.step(state, torch.full((1,), 2, device="cuda:0"))
        lasting.prefill(state, range(1), [Prompt((5, 6, 7), (2,))])
        assert lasting.step(state, torch.full((1,), 2, device="cuda:0")).isfinite().all()
        assert torch.cuda.memory_allocated() < 3 * WORKSPACE + (1 << 20)
