"""Each kernel, interpreted, beside its reference in PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from models.backends.cuda.launch import Launch, Launcher
from tests.models.backends.cuda import reference

FP16 = pytest.param(torch.float16, marks=pytest.mark.slow)
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, FP16], ids=["fp32", "bf16", "fp16"])
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-7, torch.float16: 2**-10}  # relative to 1: one rounding step


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def check(launcher: Launcher, make: Callable[[], tuple[Launch, list[Tensor]]]) -> list[Tensor]:
    """Runs the launch with both; returns the tensors that the kernel wrote, which equal the reference's."""
    (call, written), (expected_call, expected) = make(), make()
    launcher(call)
    reference.launch(expected_call)
    for ours, theirs in zip(written, expected, strict=True):
        tolerance = TOLERANCE.get(ours.dtype, 0)
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
        assert bool(torch.isfinite(ours).all())
    return written


@TYPES
def test_self_attention_appends_the_new_token_and_attends_to_each_rows_length(
    interpreter: Launcher, dtype: torch.dtype
) -> None:
    slots, length, heads, width = 7, 37, 2, 16
    positions = torch.tensor([0, 1, 15, 16, 36], dtype=torch.int32)

    def make() -> tuple[Launch, list[Tensor]]:
        qkv, cache = random(5, 3 * heads * width, dtype=dtype), random(slots, length, 2 * heads * width, dtype=dtype)
        for row, position in enumerate(positions.tolist()):
            cache[row, position + 1 :] = torch.nan  # of an earlier request, or never written
        context = torch.full((5, heads * width), torch.nan, dtype=dtype)
        arguments = qkv, cache, positions, context, width**-0.5, length, heads
        launch = Launch("attend_own", (5, heads, 1), arguments, (("D", width), ("BLOCK", 16)))
        new = torch.stack([cache[row, position] for row, position in enumerate(positions.tolist())])
        assert not torch.equal(new, qkv[:, heads * width :])
        return launch, [context]

    check(interpreter, make)
    call, _ = make()
    interpreter(call)
    qkv, cache = call.arguments[0], call.arguments[1]
    assert isinstance(qkv, Tensor) and isinstance(cache, Tensor)
    assert torch.equal(cache[torch.arange(5), positions.long()], qkv[:, heads * width :])
    untouched = random(slots, length, 2 * heads * width, dtype=dtype)
    assert torch.equal(cache[4, :36], untouched[4, :36]) and torch.equal(cache[5:], untouched[5:])


@TYPES
@pytest.mark.parametrize(("group", "block"), [(1, 32), (3, 16), (4, 16)])
def test_cross_attention_reads_the_source_of_each_group_once(
    interpreter: Launcher, dtype: torch.dtype, group: int, block: int
) -> None:
    beams, length, heads, width = 4, 21, 2, 16
    lengths = torch.zeros(beams * group + 1, dtype=torch.long)
    lengths[: beams * group : group] = torch.tensor([21, 1, 0, 17])  # 0: a free row

    def make() -> tuple[Launch, list[Tensor]]:
        query = random(beams * group, heads * width, dtype=dtype)
        cache = random(beams * group + 1, length, 2 * heads * width, dtype=dtype)
        for row in range(0, beams * group, group):
            cache[row, max(1, int(lengths[row])) :] = torch.nan
            cache[row + 1 : row + group] = torch.nan
        context = torch.full_like(query, torch.nan)
        arguments = query, cache, lengths, context, 0.3, length, heads, group
        constants = ("D", width), ("ROWS", 1 << (group - 1).bit_length()), ("BLOCK", block)
        return Launch("attend_source", (beams, heads, 1), arguments, constants), [context]

    check(interpreter, make)


@TYPES
@pytest.mark.parametrize(
    ("norm", "activation", "residual"), [(False, 0, True), (True, 1, False), (True, 2, False), (False, 3, True)]
)
def test_linear_map_with_layer_norm_before_and_activation_and_residual_after(
    interpreter: Launcher, dtype: torch.dtype, norm: bool, activation: int, residual: bool
) -> None:
    rows, outputs, inputs = 19, 40, 48

    def make() -> tuple[Launch, list[Tensor]]:
        x, weight = random(rows, inputs, dtype=dtype) + 3, random(outputs, inputs, dtype=dtype) / 8
        kept = torch.zeros_like(x)
        out = torch.full((rows, outputs), torch.nan, dtype=dtype if residual else torch.float32)
        vectors = [random(size, dtype=dtype, seed=seed) for seed, size in ((1, outputs), (2, inputs), (3, inputs))]
        arguments = x, weight, *vectors, random(rows, outputs, dtype=dtype), kept, out, rows, outputs, inputs, 1e-5
        constants = {
            "NORM": norm,
            "KEEP": norm,
            "BIAS": not residual,
            "RESIDUAL": residual,
            "ACTIVATION": activation,
            "ROWS": 16,
            "COLUMNS": 16,
            "INNER": 32,
            "SPAN": 64 if residual else 16,
        }
        grid = (-(-outputs // 16), -(-rows // 16), 1)
        return Launch("linear", grid, arguments, tuple(constants.items())), [kept, out]

    call, written = make()
    expected_call, expected = make()
    interpreter(call)
    reference.launch(expected_call)
    # a norm that falls to the other side of a rounding step moves a product of bf16 by as much
    tolerance = TOLERANCE[dtype] * (4 if dtype != torch.float32 else 1)
    for ours, theirs in zip(written, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@TYPES
def test_embedding_counts_the_token_and_clamps_positions_to_the_slot(interpreter: Launcher, dtype: torch.dtype) -> None:
    width, slot_length = 24, 6

    def make() -> tuple[Launch, list[Tensor]]:
        tokens, lengths = torch.tensor([3, 0, 10, 10]), torch.tensor([0, 5, 6, 2, 9])
        position_ids = torch.tensor([2, 3, 4, 5, 6, 7])
        tables = random(11, width, dtype=dtype), random(8, width, dtype=dtype)
        positions, x = torch.full((4,), -1, dtype=torch.int32), torch.full((4, width), torch.nan, dtype=dtype)
        arguments = tokens, lengths, position_ids, *tables, positions, x, 1.5, slot_length, width
        return Launch("embed", (4, 1, 1), arguments, (("BLOCK", 16),)), [positions, lengths, x]

    positions, lengths, _ = check(interpreter, make)
    assert positions.tolist() == [0, 5, 5, 2]
    assert lengths.tolist() == [1, 6, 7, 3, 9]


def test_a_rows_result_does_not_depend_on_the_number_of_rows(interpreter: Launcher) -> None:
    weight, x = random(32, 48), random(40, 48)

    def product(rows: int, tile: int) -> Tensor:
        out, none = torch.zeros(rows, 32), torch.zeros(48)
        constants = {"NORM": True, "KEEP": False, "BIAS": False, "RESIDUAL": False, "ACTIVATION": 0}
        constants |= {"ROWS": tile, "COLUMNS": 16, "INNER": 32, "SPAN": 64}
        arguments = x[:rows], weight, none, torch.ones(48), none, none, none, out, rows, 32, 48, 1e-5
        interpreter(Launch("linear", (2, -(-rows // tile), 1), arguments, tuple(constants.items())))
        return out

    assert torch.equal(product(1, 16)[0], product(40, 16)[0])


@pytest.mark.parametrize("kernels", ["reorder", "move"])
def test_rows_take_over_their_parents_tokens_all_at_once(interpreter: Launcher, kernels: str) -> None:
    parents, lengths = torch.tensor([1, 2, 0, 3, 3, 5]), torch.tensor([9, 9, 9, 4, 4, 4, 7])
    width, slot_length = 48, 11

    def run(launcher: Launcher) -> Tensor:
        cache = random(7, slot_length, width, dtype=torch.bfloat16)
        if kernels == "reorder":
            constants = ("ROWS", 4), ("POSITIONS", 8), ("COLUMNS", 32)
            arguments = cache, parents, lengths, slot_length, 3, width
            launcher(Launch("reorder", (2, 2, 1), arguments, constants))
        else:
            aside = torch.zeros(6, slot_length, width, dtype=torch.bfloat16)
            for back in (0, 1):
                sizes = ("BACK", back), ("POSITIONS", 8), ("COLUMNS", 32)
                launcher(Launch("move", (6, 2, 1), (cache, aside, parents, lengths, slot_length, width), sizes))
        return cache

    before, after = random(7, slot_length, width, dtype=torch.bfloat16), run(interpreter)
    assert torch.equal(after, run(reference.launch))
    for row, parent in enumerate([*parents.tolist(), 6]):
        written = int(lengths[row])
        assert torch.equal(after[row, :written], before[parent, :written])
        assert torch.equal(after[row, written:], before[row, written:])
