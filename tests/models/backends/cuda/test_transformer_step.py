"""The decode step in kernels beside PyTorch's: in the interpreter, and with each kernel's reference in its place."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import nn

from models.backends.cuda.launch import Launch, Launcher
from models.backends.cuda.transformer_step import FEW_ROWS, KernelTransformer, kernel_difference, launches, tile
from models.backends.torch.cuda_graph import Graphed
from models.backends.torch.transformer_step import EagerTransformer
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.exactness import Undrawn
from models.interface import Decodable, Prompt
from models.networks.transformer import Transformer, TransformerConfig
from tests.models import tiny
from tests.models.backends.cuda import reference
from tests.models.backends.torch.test_cuda_graph import Rerun, Served
from tests.models.stepping import ALL, CONTINUATIONS, RAGGED, stepped


def fitting(options: dict[str, Any]) -> dict[str, Any]:
    """The options with the narrowest heads that the kernels take."""
    return {"heads": 2, **options, "head_width": 16}


@ALL
def test_steps_equal_pytorchs_steps(options: dict[str, Any]) -> None:
    network = tiny.transformer(**fitting(options))
    ours = stepped(KernelTransformer(network, reference.launch), RAGGED, CONTINUATIONS)
    theirs = stepped(EagerTransformer(network), RAGGED, CONTINUATIONS)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["post", "pre", "marian"])
def test_interpreted_steps_equal_pytorchs_steps(interpreter: Launcher, name: str) -> None:
    network = tiny.transformer(**fitting(tiny.OPTIONS[name]))
    continuations = [tokens[:1] for tokens in CONTINUATIONS]
    ours = stepped(KernelTransformer(network, interpreter), RAGGED, continuations)
    theirs = stepped(EagerTransformer(network), RAGGED, continuations)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


@torch.inference_mode()
def test_bf16_steps_equal_pytorchs_steps_to_rounding() -> None:
    network = tiny.transformer(**fitting({})).bfloat16()
    ours = stepped(KernelTransformer(network, reference.launch), RAGGED, CONTINUATIONS)
    exact = stepped(EagerTransformer(network.float()), RAGGED, CONTINUATIONS)
    theirs = stepped(EagerTransformer(network.bfloat16()), RAGGED, CONTINUATIONS)
    assert float((ours - exact).abs().max()) <= 1.2 * float((theirs - exact).abs().max())


def requests(count: int) -> tuple[list[Prompt], list[DecodingOptions]]:
    chance = random.Random(3)
    prompts, options = [], []
    for number in range(count):
        prompts.append(Prompt(tuple(chance.randrange(4, 12) for _ in range(chance.randrange(1, 9))), (2,)))
        kind = chance.choice([{}, {}, {"beam_size": 4}, {"temperature": 0.9, "top_p": 0.9, "seed": number}])
        options.append(DecodingOptions(max_new_tokens=chance.choice([2, 12, 20]), **kind))
    return prompts, options


def tokens(decodable: Decodable, count: int, slots: int) -> list[list[tuple[int, ...]]]:
    hypotheses: list[list[Hypothesis]] = decode(
        Served(decodable), TokenRules(None, (0,)), *requests(count), slots=slots
    )
    return [[h.tokens for h in beam] for beam in hypotheses]


def test_mixed_requests_in_recorded_steps_give_pytorchs_tokens_with_one_graph_per_number_of_rows() -> None:
    network = tiny.transformer(**fitting({}))
    graphed = Graphed(KernelTransformer(network, reference.launch), Rerun)
    states: list[Any] = []
    allocate = graphed.allocate
    graphed.allocate = lambda *sizes: states.append(allocate(*sizes)) or states[-1]  # type: ignore[method-assign]
    assert tokens(graphed, 100, 16) == tokens(EagerTransformer(network), 100, 16)
    lengths = {(shape.length, shape.width) for shape, _ in states[0].recordings}
    assert len(lengths) == 1


@pytest.mark.slow
def test_interpreted_decoding_of_fifty_requests_gives_pytorchs_tokens(interpreter: Launcher) -> None:
    network = tiny.transformer(**fitting({}))
    assert tokens(KernelTransformer(network, interpreter), 50, 32) == tokens(EagerTransformer(network), 50, 32)


def test_interpreted_beams_give_pytorchs_tokens(interpreter: Launcher) -> None:
    network = tiny.transformer(**fitting({"decoder_layers": 1}))
    options = DecodingOptions(beam_size=3, max_new_tokens=4)
    prompts = [Prompt((4, 5, 6), (2,)), Prompt((7,), (2,))]
    rules = TokenRules(None, (0,))
    served = Served(KernelTransformer(network, interpreter)), Served(EagerTransformer(network))
    ours, theirs = (decode(each, rules, prompts, options, slots=6) for each in served)
    assert [[h.tokens for h in beam] for beam in ours] == [[h.tokens for h in beam] for beam in theirs]


@pytest.mark.parametrize("rows", [1, 128])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_step_of_six_decoder_layers_is_fifty_launches(norm: Any, rows: int) -> None:
    config = TransformerConfig(source_vocabulary=8, target_vocabulary=40, encoder_layers=1, norm=norm, d_model=512)
    with Undrawn():  # which takes longer than the step
        network = Transformer(config).eval()
    recorded = launches(network, rows)
    assert len(recorded) == 50
    assert {launch.kernel for launch in recorded} == {"embed", "linear", "attend_own", "attend_source"}


def test_tiles_are_the_same_for_any_small_number_of_rows() -> None:
    for columns in (512, 2048, 32_000):
        assert len({tile(rows, columns) for rows in range(1, FEW_ROWS + 1)}) == 1


def test_launches_that_differ_in_lengths_alone_run_the_same_compiled_kernels() -> None:
    def kernels(lengths: tuple[int, int]) -> set[tuple[Any, ...]]:
        found: list[Launch] = launches(tiny.transformer(**fitting({})), 5, 1, lengths)
        return {(each.kernel, each.types, each.aligned, each.constants, each.warps) for each in found}

    assert kernels((16, 16)) == kernels((31, 77))


def test_other_networks_are_refused_with_the_reason() -> None:
    assert kernel_difference(tiny.transformer(**fitting({}))) is None
    narrow = tiny.transformer()
    assert kernel_difference(narrow) == "its head width is 4, and the CUDA kernels take 16, 32, 64, 128"
    edited = tiny.transformer(**fitting({}))
    edited.decoder[1].around_cross.norm = nn.RMSNorm(16)
    assert kernel_difference(edited) is not None
    with pytest.raises(ValueError, match="head width"):
        KernelTransformer(narrow, reference.launch)
