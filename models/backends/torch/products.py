"""x·Wᵀ + b for networks that are only read: in a floating-point format, or in int8.

int8: W is quantized once, a scale per output; x is quantized at each call, a scale per row, so that a row's product
depends on nothing but the row. |x| and |W| reach 127 and products are summed exactly in int32:
y[i, j] = scale_x[i]·scale_w[j]·Σ x8[i, k]·w8[j, k] + b[j].

`product` is written so that TorchScript takes it (no postponed annotations in this file): see `cached_layers`.
"""

import time
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

LARGEST = 127.0


class Product(NamedTuple):
    """What is multiplied with. Floating point: weight [O, I], bias, and no kernels. int8: weight [O, I] in int8, the
    same packed as oneDNN likes it, a scale and a bias per output, and which kernel is fastest for 1, 2-3, 4-7, ...
    rows (`ROWS`)."""

    weight: Tensor
    bias: Tensor | None
    packed: Tensor
    scale: Tensor
    zeros: Tensor
    kernels: list[int]


MakeProduct = Callable[[Tensor, Tensor | None], Product]
"""weight [O, I] and bias [O] -> what multiplies with them."""


def product(p: Product, x: Tensor) -> Tensor:
    """x [N, I] -> [N, O]."""
    if len(p.kernels) == 0:
        return F.linear(x, p.weight, p.bias)
    largest = x.abs().amax(-1, True)
    rounded = (x * (127.0 / largest)).round_()
    rows, bits = x.size(0), 0
    while rows > 1 and bits + 1 < len(p.kernels):
        rows, bits = rows // 2, bits + 1
    if p.kernels[bits] == 0:
        sums = torch._int_mm(rounded.to(torch.int8), p.weight.t()) * p.scale
    else:  # reads unsigned rows, hence the zero point
        unsigned = rounded.add_(128.0).to(torch.uint8)
        sums = torch.ops.onednn.qlinear_pointwise(
            unsigned, 1.0, 128, p.packed, p.scale, p.zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
    bias = p.bias
    return sums * largest if bias is None else torch.addcmul(bias, sums, largest)


def dense(weight: Tensor, bias: Tensor | None) -> Product:
    """In the format that the tensors are in; they are the network's own, not copies."""
    nothing = weight.new_empty(0)
    return Product(weight.detach(), None if bias is None else bias.detach(), nothing, nothing, nothing, [])


def quantized(weight: Tensor, bias: Tensor | None) -> Product:
    """In int8, on a CPU."""
    return integer_product(*rounded_weight(weight), bias, list(fastest(*weight.shape)))


def rounded_weight(weight: Tensor) -> tuple[Tensor, Tensor]:
    """weight [O, I] -> the same in int8, and a scale per output, [O]."""
    weight = weight.detach().float()
    largest = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny)
    rounded = (weight / largest[:, None] * LARGEST).round_().to(torch.int8)  # in this order nothing overflows
    # an output's scale also undoes the 127 of the rows, which saves a division a call
    return rounded, largest / LARGEST**2


def integer_product(weight: Tensor, scale: Tensor, bias: Tensor | None, kernels: list[int]) -> Product:
    """weight [O, I] in int8."""
    packed = torch.ops.onednn.qlinear_prepack(weight, [1, weight.size(1)])
    zeros = torch.zeros(len(weight), dtype=torch.long)
    return Product(weight, None if bias is None else bias.detach().float(), packed, scale, zeros, kernels)


ROWS = (1, 3, 6, 12, 24, 48, 96)
"""One number of rows for each bit length 1, 2, ...; more rows are treated like the last."""
READ_BYTES = 1 << 24


@cache
def fastest(outputs: int, inputs: int) -> tuple[int, ...]:
    """For each of `ROWS`, which kernel takes less time for W [outputs, inputs] here: 0, PyTorch's own integer
    product, or 1, oneDNN's packed one. Measured over several matrices in turn, since a network does not find its
    weights in the cache either."""
    copies = max(2, min(32, READ_BYTES // (outputs * inputs)))
    matrices = [torch.ones(outputs, inputs, dtype=torch.int8) for _ in range(copies)]
    each = [[integer_product(m, torch.ones(outputs), None, [kernel]) for m in matrices] for kernel in (0, 1)]
    choice = []
    for rows in ROWS:
        x = torch.ones(rows, inputs)
        times = [_seconds(products, x) for products in each]
        choice.append(times.index(min(times)))
    return tuple(choice)


def _seconds(products: list[Product], x: Tensor, runs: int = 3) -> float:
    """Of the quickest run through all products: what disturbs a run only makes it longer."""
    durations = []
    for _ in range(runs):
        started = time.perf_counter()
        for each in products:
            product(each, x)
        durations.append(time.perf_counter() - started)
    return min(durations)


@cache
def exact_int8() -> bool:
    """Whether both kernels are there and sum int8 products exactly: older CPUs saturate sums of two at 16 bits."""
    if not torch._C._has_mkldnn:
        return False
    generator = torch.Generator().manual_seed(0)
    weight = torch.randint(-127, 128, (64, 256), generator=generator, dtype=torch.int8)
    weight[:8] = 127
    x = torch.randint(-127, 128, (9, 256), generator=generator).float()
    x[:, 0] = 127  # a row's largest: its scale is 127, and its rounding is the identity
    x[0], x[1] = 127, -127
    expected = (x.double() @ weight.double().t()).float() * 127.0  # sums below 2**24: floats hold them exactly
    made = [integer_product(weight, torch.ones(64), None, [kernel]) for kernel in (0, 1)]
    return all(torch.equal(product(p, rows), expected[: len(rows)]) for p in made for rows in (x, x[:1]))
