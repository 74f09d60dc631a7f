"""The recurrent networks' native steps: a row's numbers do not depend on its company, and they are PyTorch's."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from models.backends import select
from models.backends.native import build
from models.backends.native.build import fp32_runnable
from models.backends.native.cpu import cpu_flags
from models.backends.native.fp32_recurrent import NativeRecurrent
from models.backends.select import prepared
from models.backends.torch.recurrent_step import EagerRecurrent
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt
from models.networks.recurrent import RecurrentLanguageModel, RecurrentState
from tests.models import tiny
from tests.models.kernels import compiled, forget

FUSED_CELLS = pytest.mark.parametrize("cell", tiny.FUSED_CELLS)
LAYERS = pytest.mark.parametrize("layers", [1, 2, 3])
VOCABULARY = 300  # more than whole blocks of 64: columns are filled up
BEST, *OTHERS = fp32_runnable("", cpu_flags())
AVAILABLE = [BEST, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)]


@pytest.fixture(scope="module", params=AVAILABLE, ids=lambda variant: variant.name)
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    """For every instruction set that this machine has."""
    return compiled(build.first_loadable([request.param], "fp32"))


def a_network(cell: str, layers: int, hidden: int, vocabulary: int = VOCABULARY) -> RecurrentLanguageModel:
    return tiny.recurrent(cell=cell, layers=layers, hidden=hidden, vocabulary=vocabulary)


def prompts_of(count: int, seed: int) -> list[Prompt]:
    rng = random.Random(seed)
    lengths = [rng.choice([1, 1, 2, 3, 7, 20]) for _ in range(count)]
    return [Prompt((), tuple(rng.randrange(VOCABULARY) for _ in range(length))) for length in lengths]


def read(decodable: Any, prompts: list[Prompt], slots: int | None = None) -> RecurrentState:
    """Prompt i in row i; whatever the rows held before."""
    state: RecurrentState = decodable.allocate(slots or len(prompts), 0, 9)
    state.hidden.fill_(torch.nan)
    state.memory.fill_(torch.nan)
    decodable.prefill(state, range(len(prompts)), prompts)
    return state


def lone(decodable: Any, prompt: Prompt) -> tuple[RecurrentState, list[Tensor]]:
    """What two steps of the row alone come to."""
    state = read(decodable, [prompt])
    return state, [decodable.step(state, torch.tensor([prompt.prefix[-1]]))[0] for _ in range(2)]


@pytest.mark.every_value
@pytest.mark.parametrize("hidden", [5, 100])
@LAYERS
@FUSED_CELLS
def test_row_is_bit_identical_in_any_batch(library: ctypes.CDLL, cell: str, layers: int, hidden: int) -> None:
    decodable = NativeRecurrent(a_network(cell, layers, hidden), library)
    prompts = prompts_of(65, hidden)
    alone = [lone(decodable, prompt) for prompt in prompts]
    for rows in (2, 3, 5, 6, 7, 12, 13, 19, 33, 64, 65):
        first = (rows * 7) % (len(prompts) - rows + 1)
        company = prompts[first : first + rows][::-1]
        state = read(decodable, company, rows + 2)
        tokens = torch.tensor([prompt.prefix[-1] for prompt in company])
        logits = torch.stack([decodable.step(state, tokens) for _ in range(2)], dim=1)
        for row, (expected, steps) in enumerate(alone[first : first + rows][::-1]):
            assert torch.equal(logits[row], torch.stack(steps)), (rows, row)
            assert torch.equal(state.hidden[:, row], expected.hidden[:, 0])
            assert torch.equal(state.memory[:, row], expected.memory[:, 0])
        assert state.hidden[:, rows:].isnan().all(), "rows that wait keep still"


@FUSED_CELLS
def test_more_rows_than_stay_in_the_cache(library: ctypes.CDLL, cell: str) -> None:
    decodable = NativeRecurrent(a_network(cell, 2, 24), library)
    prompts = prompts_of(65, 1)
    expected = torch.stack([lone(decodable, prompt)[1][0] for prompt in prompts])
    state = read(decodable, prompts * 4)
    tokens = torch.tensor([prompt.prefix[-1] for prompt in prompts * 4])
    assert torch.equal(decodable.step(state, tokens), expected.repeat(4, 1))


@pytest.mark.every_value
@pytest.mark.parametrize(("hidden", "vocabulary"), [(5, 3), (24, 70), (256, 1321)])
@pytest.mark.parametrize("embedding", [0, 6], ids=["one-hot", "embedded"])
@LAYERS
@FUSED_CELLS
def test_results_equal_pytorch(
    library: ctypes.CDLL, cell: str, layers: int, embedding: int, hidden: int, vocabulary: int
) -> None:
    network = tiny.recurrent(cell=cell, layers=layers, hidden=hidden, vocabulary=vocabulary, embedding=embedding)
    native, plain = NativeRecurrent(network, library), EagerRecurrent(prepared(network, "fp32"))
    rng = random.Random(hidden)
    texts = [tuple(rng.randrange(vocabulary) for _ in range(length)) for length in (9, 1, 4, 40, 2, 2, 13)]
    prompts = [Prompt((), text) for text in texts]
    states = read(native, prompts), read(plain, prompts)
    for _ in range(12):
        tokens = torch.tensor([rng.randrange(vocabulary) for _ in prompts])
        result, expected = native.step(states[0], tokens), plain.step(states[1], tokens)
        assert expected[:, :vocabulary].std() > 0.05
        torch.testing.assert_close(result[:, :vocabulary], expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(states[0].hidden, states[1].hidden, rtol=0, atol=1e-5)
    if cell == "lstm":
        torch.testing.assert_close(states[0].memory, states[1].memory, rtol=0, atol=1e-5)


@FUSED_CELLS
def test_far_from_zero_and_broken_rows(library: ctypes.CDLL, cell: str) -> None:
    network = a_network(cell, 1, 24)
    native, plain = NativeRecurrent(network, library), EagerRecurrent(prepared(network, "fp32"))
    result, expected = network.zeros(6), network.zeros(6)
    for state in (result, expected):
        state.hidden.copy_(torch.tensor([1e30, -1e30, 90.0, 1e-30, torch.nan, 0.5])[:, None].expand(6, 24))
        state.memory.copy_(state.hidden)
    tokens = torch.arange(6)
    logits = native.step(result, tokens)
    torch.testing.assert_close(
        logits[:, :VOCABULARY], plain.step(expected, tokens), rtol=1e-4, atol=1e-5, equal_nan=True
    )
    torch.testing.assert_close(result.hidden, expected.hidden, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert logits[4, 0].isnan()
    assert logits[5, :VOCABULARY].isfinite().all()


def test_missing_tokens_and_rows_are_refused(library: ctypes.CDLL) -> None:
    decodable = NativeRecurrent(a_network("gru", 1, 5), library)
    state = decodable.allocate(2, 0, 9)
    for tokens in ([VOCABULARY], [-1], [0, 0, 0]):
        with pytest.raises(IndexError, match="not in the vocabulary, or there is no such row"):
            decodable.step(state, torch.tensor(tokens))
    for row, text in ((2, (1, 1)), (-1, (1, 1)), (0, (VOCABULARY, 1))):
        with pytest.raises(IndexError, match="not in the vocabulary, or there is no such row"):
            decodable.prefill(state, [row], [Prompt((), text)])
    with pytest.raises(IndexError, match="not in the vocabulary, or there is no such row"):
        decodable.prefill(state, [0], [Prompt((), ())])
    assert not state.hidden.any()


def test_fp32_on_a_cpu_is_native_and_nothing_else_is() -> None:
    compiled(build.fp32_library())
    network = tiny.recurrent()
    assert isinstance(select.decodable(network), NativeRecurrent)
    assert type(select.decodable(network, "bf16")) is EagerRecurrent
    assert isinstance(select.decodable(network, "int8"), NativeRecurrent), "which has no int8"


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    forget()
    yield
    forget()


def test_without_a_compiler_pytorch_does_it(no_compiler: None, caplog: pytest.LogCaptureFixture) -> None:
    assert type(select.decodable(tiny.recurrent())) is EagerRecurrent
    assert "fp32 runs in PyTorch" in caplog.text
    drawing = DecodingOptions(max_new_tokens=5, temperature=1.0, seed=3)
    result = decode(tiny.recurrent(), TokenRules(None), [Prompt((), (3,))], drawing)
    assert len(result[0][0].tokens) == 5


@FUSED_CELLS
def test_texts_under_mixed_load_equal_single_requests(cell: str) -> None:
    """Drawn, searched and greedy ones, short and long, joining and leaving all the time."""
    network, rules, rng = a_network(cell, 2, 24), TokenRules(2, (0, 1)), random.Random(9)
    prompts = prompts_of(60, 4)
    options = [
        DecodingOptions(
            max_new_tokens=rng.choice([1, 5, 30]),
            beam_size=3 if number % 7 == 0 else 1,
            temperature=0.0 if number % 7 == 0 else rng.choice([0, 0.3, 0.8, 1.5]),
            top_k=rng.choice([0, 0, 5, 40]),
            top_p=rng.choice([1.0, 1.0, 0.9]),
            seed=number,
        )
        for number in range(60)
    ]
    together = decode(network, rules, prompts, options, slots=17)
    for prompt, chosen, results in zip(prompts, options, together, strict=True):
        (alone,) = decode(network, rules, [prompt], chosen)
        assert [(h.tokens, h.finished) for h in results] == [(h.tokens, h.finished) for h in alone]
    assert len({h[0].tokens for h in together}) > 30
