"""Number formats: cast and shared tensors, unchanged decoding, and the choice of the fastest."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch

from models.backends import select
from models.backends import select as precisions
from models.backends.native import build
from models.backends.native.build import CHOICE
from models.backends.native.int8_transformer import NativeTransformer
from models.backends.select import DTYPES, PRECISIONS, candidates, fastest, prepared, step_ms
from models.backends.torch.int8_linear import exact_int8
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt
from tests.models import tiny

PROMPTS = [Prompt((3, 4, 5), (1, 6)), Prompt((7,), (1,))]
LYRICS = [Prompt((), (3, 4, 5)), Prompt((), (6,))]
NETWORKS: dict[str, Any] = {
    "post": lambda: (tiny.transformer(), PROMPTS),
    "pre": lambda: (tiny.transformer(norm="pre"), PROMPTS),
    **{cell: (lambda cell=cell: (tiny.recurrent(cell=cell), LYRICS)) for cell in tiny.ALL_CELLS},
    "one-hot": lambda: (tiny.recurrent(embedding=0), LYRICS),
}
CPU = torch.device("cpu")


class InPrecision:
    """A network that is decoded in one precision."""

    def __init__(self, network: Any, precision: Any) -> None:
        self.network, self.precision = network, precision

    def decodable(self, precision: Any = "fp32") -> Any:
        return select.decodable(self.network, self.precision)


@pytest.mark.every_value
@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *((name, precision) for name in NETWORKS for precision in ("bf16", "fp16")),
        *((name, "int8") for name in ("post", "pre")),
    ],
)
def test_narrow_networks_decode_as_before(name: str, precision: Any) -> None:
    network, prompts = NETWORKS[name]()
    options = DecodingOptions(max_new_tokens=6, beam_size=2)
    rules = TokenRules(2, (0,))
    before = decode(network, rules, prompts, options)
    weights = [p.clone() for p in network.parameters()]
    decodable = select.decodable(network, precision)
    state = decodable.allocate(2, 3, 8)
    decodable.prefill(state, [0, 1], prompts)
    tokens = torch.tensor([p.prefix[-1] for p in prompts])
    logits = decodable.step(state, tokens)
    assert logits.dtype == torch.float32
    wide = select.decodable(network)
    state = wide.allocate(2, 3, 8)
    wide.prefill(state, [0, 1], prompts)
    expected = wide.step(state, tokens)
    assert not torch.equal(logits, expected)
    most = {"bf16": 0.12, "fp16": 0.015, "int8": 0.15}[precision]
    torch.testing.assert_close(logits, expected, rtol=0, atol=most)
    after = decode(InPrecision(network, precision), rules, prompts, options)
    for old, new in zip(before, after, strict=True):
        assert new[0].log_probability == pytest.approx(old[0].log_probability, abs=0.5)
        assert isinstance(new[0].log_probability, float)
    assert all(torch.equal(a, b) for a, b in zip(weights, network.parameters(), strict=True)), "it is as it was"
    assert all(p.dtype == torch.float32 and p.requires_grad for p in network.parameters())


@pytest.mark.parametrize("name", NETWORKS)
def test_all_tensors_are_cast(name: str) -> None:
    network, _ = NETWORKS[name]()
    select.decodable(network).allocate(2, 3, 80)  # an existing position table is cast too
    for precision, dtype in DTYPES.items():
        result = prepared(network, precision)
        assert all(tensor.dtype == dtype for tensor in [*result.parameters(), *result.buffers()])
        assert (result is network) == (precision == "fp32")


def test_fp32_shares_the_networks_weights() -> None:
    network = tiny.transformer()
    decodable = select.decodable(network)
    state = decodable.allocate(1, 3, 4)
    decodable.prefill(state, [0], [Prompt((3,), (1,))])
    before = decodable.step(state, torch.tensor([1]))
    assert network.output is not None
    with torch.no_grad():
        network.output.weight.mul_(2)
    decodable.prefill(state, [0], [Prompt((3,), (1,))])
    torch.testing.assert_close(decodable.step(state, torch.tensor([1])), before * 2)


def test_a_network_in_bf16_can_be_decoded_in_fp32() -> None:
    network = tiny.transformer().bfloat16()
    decodable = select.decodable(network, "fp32")
    state = decodable.allocate(1, 3, 4)
    assert state.own[0].both.dtype == torch.float32
    decodable.prefill(state, [0], [Prompt((3,), (1,))])
    assert decodable.step(state, torch.tensor([1])).isfinite().all()
    assert network.source_embedding.weight.dtype == torch.bfloat16


def test_unknown_precision_is_refused() -> None:
    for network in (tiny.recurrent(), tiny.transformer()):
        with pytest.raises(ValueError, match="precision must be one of fp32, bf16, fp16, int8, not 'int3'"):
            select.decodable(network, "int3")  # type: ignore[arg-type]


def test_int8_is_refused_where_it_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="int8 is for CPUs; use bf16 or fp16 on this device"):
        select.decodable(tiny.transformer().to("meta"), "int8")
    monkeypatch.setattr(precisions, "exact_int8", lambda: False)
    monkeypatch.setenv(CHOICE, "none")
    with pytest.raises(ValueError, match="this CPU does not sum int8 products exactly; use fp32 or bf16"):
        select.decodable(tiny.transformer(), "int8")
    assert set(fastest(tiny.transformer(), CPU)[1]) == {"fp32", "bf16"}


def test_native_kernels_sum_exactly_where_pytorch_does_not(
    library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precisions, "exact_int8", lambda: False)
    assert isinstance(select.decodable(tiny.transformer(), "int8"), NativeTransformer)
    assert set(fastest(tiny.transformer(), CPU)[1]) == {"fp32", "int8", "bf16"}
    assert set(fastest(tiny.recurrent(), CPU)[1]) == {"fp32", "bf16"}


@pytest.mark.parametrize("name", ["post", "gru"])
def test_the_fastest_is_the_one_with_the_shortest_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network, prompts = NETWORKS[name]()
    selection, times = fastest(network, CPU)
    decodable = selection.decodable
    refused = name == "gru" or (not exact_int8() and build.library() is None)
    assert set(times) == set(candidates(CPU)) - ({"int8"} if refused else set()) <= set(PRECISIONS)
    assert all(ms > 0 for ms in times.values())
    assert all(next(iter(times.values())) <= precisions.WORTH_IT * ms for ms in times.values())
    state = decodable.allocate(2, 3, 8)
    decodable.prefill(state, [0, 1], prompts)
    assert decodable.step(state, torch.tensor([6, 1])).shape == (2, tiny.TARGET)


@pytest.mark.parametrize(
    ("steps_ms", "chosen"),
    [((3.0, 1.0, 2.0), 1), ((3.0, 2.5, 2.6), 0), ((3.0, 2.0, 1.9), 1), ((3.0, 2.0, 1.0), 2), ((1.0, 3.0, 2.0), 0)],
)
def test_other_precision_must_be_clearly_faster(
    steps_ms: tuple[float, ...], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precisions, "candidates", lambda device: ("fp32", "int8", "bf16"))
    made: list[Any] = []

    def step_ms(decodable: Any, rows: int, give_up_ms: float) -> float:
        made.extend([decodable] if decodable not in made else [])
        return steps_ms[made.index(decodable)]

    monkeypatch.setattr(precisions, "step_ms", step_ms)
    result, times = fastest(tiny.transformer(), CPU)
    assert result.decodable is made[chosen]
    assert next(iter(times)) == ("fp32", "int8", "bf16")[chosen]
    assert times == dict(zip(("fp32", "int8", "bf16"), (2 * ms for ms in steps_ms), strict=True))


def test_hopelessly_slow_precision_is_left_after_its_first_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """fp32 takes 10 ms a step; int8 starts with 300 ms, as on a busy machine, and then takes 1 ms; bf16 takes 3 s."""
    monkeypatch.setattr(precisions, "candidates", lambda device: ("fp32", "int8", "bf16"))
    selection = select.Selection
    monkeypatch.setattr(precisions, "select", lambda network, precision: selection(Timed(precision), "", True, ""))
    durations = {"fp32": [0.01] * 8, "int8": [0.3, *[0.001] * 7], "bf16": [3.0] * 8}
    clock, steps = 0.0, dict.fromkeys(durations, 0)

    class Timed:
        device = CPU

        def __init__(self, precision: Any) -> None:
            self.precision = precision

        def allocate(self, rows: int, source: int, target: int) -> None: ...

        def prefill(self, state: None, rows: Any, prompts: Any) -> None: ...

        def step(self, state: None, tokens: torch.Tensor) -> torch.Tensor:
            nonlocal clock
            clock += durations[self.precision][steps[self.precision]]
            steps[self.precision] += 1
            return torch.zeros(len(tokens), 1)

    monkeypatch.setattr(precisions.time, "perf_counter", lambda: clock)
    _, times = fastest(tiny.transformer(), CPU)
    assert times == pytest.approx({"int8": 2.0, "fp32": 20.0})
    assert steps == {"fp32": 8, "int8": 8, "bf16": 2}


def test_a_step_is_timed_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.5, 1.0, 1.002, 2.0, 2.5, 3.0, 3.004])
    monkeypatch.setattr(precisions.time, "perf_counter", lambda: next(clock))
    assert step_ms(select.decodable(tiny.recurrent()), 3) == pytest.approx(2.0)
