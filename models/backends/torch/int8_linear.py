"""int8 linear maps on CPUs without our kernels: oneDNN's and PyTorch's integer products.

The weight is quantized once, with a scale per output; x at each call, with a scale per row, so that a row's product is
independent of its batch. |x| and |W| reach 127, and products are summed exactly in int32:
y[i, j] = scale_x[i]·scale_w[j]·Σ x8[i, k]·w8[j, k] + b[j]."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from models.exactness import difference
from models.networks.transformer import MultiHeadAttention, Projection

LARGEST = 127.0
LARGE = 1 << 20  # weights from which on oneDNN's product is the faster one; a call of it takes longer


def rounded_weight(weight: Tensor) -> tuple[Tensor, Tensor]:
    """weight [O, I] -> int8 weight and scale per output [O]."""
    weight = weight.detach().float()
    largest = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny)
    rounded = (weight / largest[:, None] * LARGEST).round_().to(torch.int8)  # in this order nothing overflows
    # the output scale includes the 127 of the rows, which saves a division per call
    return rounded, largest / LARGEST**2


class Product:
    """x·Wᵀ + b. weight [O, I] in int8; scale, bias [O]; large: whether oneDNN computes it."""

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None, *, large: bool) -> None:
        self.weight, self.scale = weight, scale
        self.bias = None if bias is None else bias.detach().float()
        self.packed = torch.ops.onednn.qlinear_prepack(weight, [1, weight.size(1)]) if large else None
        self.zeros = torch.zeros(len(weight), dtype=torch.long)

    def __call__(self, x: Tensor) -> Tensor:
        """x [N, I] -> [N, O]."""
        largest = x.abs().amax(-1, True)
        rounded = (x * (LARGEST / largest)).round_()
        if self.packed is None:
            sums = torch._int_mm(rounded.to(torch.int8), self.weight.t()) * self.scale
        else:  # takes unsigned rows, hence the zero point
            unsigned = rounded.add_(128.0).to(torch.uint8)
            sums = torch.ops.onednn.qlinear_pointwise(
                unsigned, 1.0, 128, self.packed, self.scale, self.zeros, None, 1.0, 0, torch.float32, "none", [], ""
            )
        return sums * largest if self.bias is None else torch.addcmul(self.bias, sums, largest)


class Int8Linear(nn.Module):
    """Replaces a linear map with frozen weights. rows: see `networks.transformer.Projection`. halved: outputs from this
    one on are rounded to float16, as the caches of our kernels hold keys and values."""

    def __init__(self, weight: Tensor, bias: Tensor | None, halved: int | None = None) -> None:
        super().__init__()
        self.of, self.halved = (weight.detach(), None if bias is None else bias.detach()), halved
        self.products: dict[tuple[int | None, int | None], Product] = {}

    @property
    def weight(self) -> Tensor:
        """The dequantized weight [O, I] in fp32, for edited code that reads the matrix itself."""
        rounded, scale = rounded_weight(self.of[0])
        return rounded * (scale * LARGEST)[:, None]

    @property
    def bias(self) -> Tensor | None:
        return self.of[1]

    def forward(self, x: Tensor, rows: slice | None = None) -> Tensor:
        rows = rows or slice(None)
        found = self.products.get((rows.start, rows.stop))
        if found is None:
            weight, bias = self.of
            weight, bias = weight[rows], None if bias is None else bias[rows]
            found = Product(*rounded_weight(weight), bias, large=weight.numel() >= LARGE)
            self.products[rows.start, rows.stop] = found
        y = found(x.reshape(-1, x.size(-1)))
        if self.halved is not None and (first := max(self.halved - (rows.start or 0), 0)) < y.size(1):
            y[:, first:] = y[:, first:].half()
        return y.view(*x.shape[:-1], -1)


def quantize(network: nn.Module) -> None:
    """Replaces every unmodified linear map by an `Int8Linear`."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if not isinstance(child, nn.Linear) or type(child) not in (nn.Linear, Projection):
                continue
            plain = type(child)(child.in_features, child.out_features, bias=child.bias is not None, device="meta")
            if difference(child, plain) is None:
                projects = isinstance(module, MultiHeadAttention) and name == "projection"
                halved = child.out_features // 3 if projects else None  # queries come first
                setattr(module, name, Int8Linear(child.weight, child.bias, halved))


@cache
def exact_int8() -> bool:
    """Whether both kernels exist and sum int8 products exactly: older CPUs saturate sums of two products at 16 bits."""
    if not torch._C._has_mkldnn:
        return False
    generator = torch.Generator().manual_seed(0)
    weight = torch.randint(-127, 128, (64, 256), generator=generator, dtype=torch.int8)
    weight[:8] = 127
    x = torch.randint(-127, 128, (9, 256), generator=generator).float()
    x[:, 0] = 127  # the row's maximum, so its scale is 127 and rounding is the identity
    x[0], x[1] = 127, -127
    expected = (x.double() @ weight.double().t()).float() * LARGEST  # below 2**24, so float32 holds the sums exactly
    products = [Product(weight, torch.ones(64), None, large=large) for large in (False, True)]
    return all(torch.equal(product(rows), expected[: len(rows)]) for product in products for rows in (x, x[:1]))
