"""Networks in the native kernels against the same in PyTorch's int8, alone and together."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from models.backends import select
from models.backends.native import int8_transformer
from models.backends.native.int8_transformer import NativeTransformer
from models.backends.select import prepared
from models.backends.torch.transformer_step import EagerTransformer
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt
from tests.models import tiny
from tests.models.kernels import needs_exact_int8

PROMPTS = [
    Prompt(tuple(tiny.ids((n,), n, low=3).tolist()), (1, *[4] * (n % 3))) for n in (5, 1, 8, 3, 6, 4, 2, 7, 9, 3)
]


def logits_of(network: Any, prompts: list[Prompt], steps: int = 4) -> Tensor:
    """[steps, B, V], after the same tokens whatever the network says."""
    state = network.allocate(len(prompts) + 1, 9, 12)
    network.prefill(state, range(len(prompts)), prompts)
    fed = [torch.tensor([p.prefix[-1] for p in prompts]), *tiny.ids((steps - 1, len(prompts)), 5, low=3)]
    return torch.stack([network.step(state, tokens) for tokens in fed])


@pytest.mark.every_value
@needs_exact_int8
@pytest.mark.parametrize("name", tiny.OPTIONS)
def test_every_option_of_the_network_says_what_pytorch_says_in_int8(library: ctypes.CDLL, name: str) -> None:
    network = tiny.transformer(**tiny.OPTIONS[name])
    result = select.decodable(network, "int8")
    assert isinstance(result, NativeTransformer)
    in_pytorch = logits_of(EagerTransformer(prepared(network, "int8")), PROMPTS)
    in_c = logits_of(result, PROMPTS)
    assert in_c.shape == in_pytorch.shape
    used = in_c.isfinite()
    assert torch.equal(used, in_pytorch.isfinite())
    difference = (in_c - in_pytorch).masked_fill(~used, 0).abs().amax(dim=(0, 2))
    # a number that lies between two bytes may be rounded to the other one: that shows in few rows, and little there
    assert difference.median() < 1e-4, difference
    assert difference.max() < 0.3, difference


def test_a_row_does_not_depend_on_its_batch_mates_to_the_bit(library: ctypes.CDLL) -> None:
    network = select.decodable(tiny.transformer(), "int8")
    together = logits_of(network, PROMPTS)
    for number, prompt in enumerate(PROMPTS):
        state = network.allocate(1, 9, 12)
        network.prefill(state, [0], [prompt])
        assert torch.equal(network.step(state, torch.tensor([prompt.prefix[-1]]))[0], together[0, number])


def test_a_forced_prefix_is_as_if_it_had_been_stepped(library: ctypes.CDLL) -> None:
    network = select.decodable(tiny.transformer(), "int8")
    state = network.allocate(2, 9, 12)
    network.prefill(state, [0, 1], [Prompt((3, 4), (1, 5, 6, 7)), Prompt((3, 4), (1,))])
    network.copy(state, [1], [0])
    for token in (1, 5, 6):
        network.step(state, torch.tensor([token]))
    network.prefill(state, [1], [Prompt((3, 4), (1, 5, 6, 7))])
    logits = network.step(state, torch.tensor([7, 7]))
    assert torch.equal(logits[0], logits[1])


def test_kernels_write_only_within_tables_and_slots(library: ctypes.CDLL) -> None:
    network = select.decodable(tiny.transformer(), "int8")
    state = network.allocate(1, 3, 2)
    for prompt in (
        Prompt((tiny.SOURCE,), (1,)),
        Prompt((-1,), (1,)),
        Prompt((3, 4, 5, 6), (1,)),
        Prompt((3,), (99, 1)),
    ):
        with pytest.raises(IndexError, match="vocabulary"):
            network.prefill(state, [0], [prompt])
    network.prefill(state, [0], [Prompt((3,), (1,))])
    with pytest.raises(IndexError, match="vocabulary"):
        network.step(state, torch.tensor([tiny.TARGET]))
    for _ in range(2):
        network.step(state, torch.tensor([1]))
    with pytest.raises(IndexError, match="slot"):
        network.step(state, torch.tensor([1]))


@needs_exact_int8
def test_a_source_of_nothing_is_read_as_nothing(library: ctypes.CDLL) -> None:
    network, prompts = tiny.transformer(), [Prompt((), (1,)), Prompt((3, 4), (1,))]
    expected = logits_of(EagerTransformer(prepared(network, "int8")), prompts)
    torch.testing.assert_close(logits_of(select.decodable(network, "int8"), prompts), expected, rtol=0, atol=0.3)
    assert logits_of(select.decodable(network, "int8"), prompts[:1]).shape == (4, 1, expected.size(2))


@pytest.mark.every_value
@pytest.mark.parametrize("options", [{}, {"beam_size": 3, "n_best": 3}, {"temperature": 0.8, "seed": 5}], ids=str)
def test_all_that_decodes_decodes_together_as_alone(library: ctypes.CDLL, options: dict[str, Any]) -> None:
    network, rules = tiny.transformer(), TokenRules(2, (0, 1))
    chosen = DecodingOptions(max_new_tokens=8, **options)
    together = decode(network, rules, PROMPTS, chosen, slots=6, precision="int8")
    assert together == [decode(network, rules, [prompt], chosen, precision="int8")[0] for prompt in PROMPTS]


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8_transformer, "threads_for", lambda weights: 2)


@pytest.mark.every_value
@pytest.mark.parametrize("name", ["post", "gelu", "marian"])
def test_threads_of_a_step_change_no_bit(
    library: ctypes.CDLL, two_threads: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    network = select.decodable(tiny.transformer(**tiny.OPTIONS[name]), "int8")
    assert network.allocate(1, 9, 12).caches.threads == 2
    together = logits_of(network, PROMPTS)
    monkeypatch.undo()
    assert network.allocate(1, 9, 12).caches.threads == 1
    assert torch.equal(logits_of(network, PROMPTS), together)


def test_steps_of_two_callers_at_once_are_as_alone(library: ctypes.CDLL, two_threads: None) -> None:
    network = select.decodable(tiny.transformer(), "int8")
    alone = logits_of(network, PROMPTS)
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda _: logits_of(network, PROMPTS), range(40))
    assert all(torch.equal(result, alone) for result in results)


def test_rows_of_the_same_contents_are_computed_once(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies, overwritten originals and moved rows in random order, against steps of every row."""
    network = select.decodable(tiny.transformer(), "int8")
    assert isinstance(network, NativeTransformer)
    step_once, spared, random = NativeTransformer._step_once, list[int](), Random(0)

    def counted_step(self: NativeTransformer, *arguments: Any) -> Tensor:
        spared.append(len(arguments[-1]))
        return step_once(self, *arguments)

    monkeypatch.setattr(NativeTransformer, "_step_once", counted_step)
    for _ in range(20):
        twinned, plain = (network.allocate(12, 9, 12) for _ in range(2))
        for state in (twinned, plain):
            network.prefill(state, range(10), PROMPTS)
        for _ in range(4):
            for _ in range(random.randrange(5)):
                rows = random.sample(range(10), 4)
                kind, prompts = random.randrange(3), random.sample(PROMPTS, 2)
                for state in (twinned, plain):
                    if kind == 0:
                        network.prefill(state, rows[:2], prompts)
                    elif kind == 1:
                        network.copy(state, [10], rows[:1])  # row 10 is not stepped
                        network.copy(state, rows[1:2], [10])
                    else:
                        network.copy(state, [rows[0]] * 3, rows[1:])
            tokens = torch.tensor([random.choice([4, 4, 4, 5]) for _ in range(10)])
            plain.forget_twins()
            assert torch.equal(network.step(twinned, tokens), network.step(plain, tokens))
            assert torch.equal(twinned.cache, plain.cache)
            assert twinned.lengths.tolist() == plain.lengths.tolist()
    assert sum(spared) > 20
