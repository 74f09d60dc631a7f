"""Products in int8 against whole numbers, for each kernel; and which kernel is taken."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backends.torch.int8_linear import LARGE, Int8Linear, Product, exact_int8, quantize, rounded_weight
from models.networks.transformer import Projection

KERNELS = pytest.mark.parametrize("large", [False, True], ids=["int_mm", "onednn"])
SHAPES = pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (19, 16), (33, 7), (64, 128), (200, 512)])


def random_weight(outputs: int, inputs: int, seed: int = 0) -> Tensor:
    return torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(seed))


def quantized(weight: Tensor, bias: Tensor | None, *, large: bool) -> Product:
    return Product(*rounded_weight(weight), bias, large=large)


def product(made: Product, x: Tensor) -> Tensor:
    return made(x)


def by_the_formula(weight: Tensor, bias: Tensor | None, x: Tensor) -> np.ndarray:
    """y[i, j] = scale_x[i]·scale_w[j]·Σ x8[i, k]·w8[j, k] + b[j], sums in whole numbers, the rest in float64."""
    w, rows = weight.numpy(), x.numpy()
    scale_w, scale_x = np.abs(w).max(axis=1), np.abs(rows).max(axis=1)
    w8 = np.rint(w / np.where(scale_w > 0, scale_w, 1)[:, None] * np.float32(127)).astype(np.int64)
    x8 = np.rint(rows * (np.float32(127) / np.where(scale_x > 0, scale_x, 1))[:, None]).astype(np.int64)
    sums = x8 @ w8.T
    scales = (scale_x.astype(np.float64) / 127)[:, None] * (scale_w.astype(np.float64) / 127)
    return sums * scales + (0 if bias is None else bias.double().numpy())


@KERNELS
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 31, 64, 100, 200])
def test_sums_are_exact_integers(large: bool, rows: int) -> None:
    """Rows and weights of whole numbers up to 127, scales of 1: every digit is right."""
    generator = torch.Generator().manual_seed(rows)
    weight = torch.randint(-127, 128, (48, 300), generator=generator)
    x = torch.randint(-127, 128, (rows, 300), generator=generator)
    weight[:, 0] = 127
    x[:, -1] = -127
    weight[1], x[0] = 127, -127
    made = quantized(weight.float(), None, large=large)
    expected = x @ weight.t()
    # 127 / 127² · 127 is 1 but for its last digit
    assert torch.equal(product(made, x.float()).double().round().long(), expected)
    made.scale = torch.full((48,), 1 / 127)
    assert torch.equal(product(made, x.float()).round().long(), expected)


@KERNELS
@SHAPES
@pytest.mark.parametrize("biased", [False, True])
def test_products_equal_the_formula(large: bool, outputs: int, inputs: int, biased: bool) -> None:
    weight = random_weight(outputs, inputs) * torch.logspace(-3, 2, outputs)[:, None]
    bias = random_weight(1, outputs, 3)[0] if biased else None
    made = quantized(weight, bias, large=large)
    for rows in (1, 2, 7, 40):
        x = random_weight(rows, inputs, rows) * torch.logspace(-6, 6, rows)[:, None]
        expected = by_the_formula(weight, bias, x)
        np.testing.assert_allclose(
            product(made, x).numpy(), expected, rtol=3e-6, atol=1e-6 * np.abs(expected).max(axis=1).min()
        )


@KERNELS
def test_products_are_close_to_fp32(large: bool) -> None:
    weight, x = random_weight(200, 512), random_weight(20, 512, 5)
    result, exact = product(quantized(weight, None, large=large), x), x @ weight.t()
    assert (result - exact).norm() / exact.norm() < 0.015


@pytest.mark.parametrize("other", [False, True], ids=["alike", "by the other kernel"])
@KERNELS
def test_row_is_bit_identical_in_any_batch(large: bool, other: bool) -> None:
    weight, x = random_weight(65, 96), random_weight(200, 96, 2)
    x[::7] *= 1e4
    x[::11] = 0
    made = quantized(weight, random_weight(1, 65, 9)[0], large=large)
    single = quantized(weight, random_weight(1, 65, 9)[0], large=large ^ other)
    alone = torch.cat([product(single, row[None]) for row in x])
    for count in (2, 3, 4, 7, 16, 33, 64, 127, 200):
        assert torch.equal(product(made, x[:count]), alone[:count]), count
        assert torch.equal(product(made, x[-count:].flip(0)), alone[-count:].flip(0)), count


@KERNELS
def test_rows_of_zeros_and_of_one_huge_number(large: bool) -> None:
    weight, bias = random_weight(24, 32), random_weight(1, 24, 4)[0]
    for given in (None, bias):
        made = quantized(weight, given, large=large)
        x = torch.zeros(4, 32)
        x[1, 5] = 3e30
        x[2, 6] = -1e-30
        x[3] = 1e-44  # below what float32 holds in full
        result = product(made, x)
        base = torch.zeros(24) if given is None else bias
        assert torch.equal(result[0], base)
        rounded = (weight / weight.abs().amax(1, True) * 127).round() * weight.abs().amax(1, True) / 127
        torch.testing.assert_close(result[1], rounded[:, 5] * 3e30, rtol=1e-5, atol=0)
        torch.testing.assert_close(result[2], base, rtol=0, atol=1e-28)
        torch.testing.assert_close(result[3], base, rtol=0, atol=1e-28)


@KERNELS
def test_zero_and_tiny_weight_rows(large: bool) -> None:
    weight = random_weight(16, 32)
    weight[3] = 0
    weight[4] = 1e-42
    weight[5] = 1e-37
    x = random_weight(9, 32, 1) * 1e6
    result = product(quantized(weight, None, large=large), x)
    assert result.isfinite().all()
    assert (result[:, 3] == 0).all()
    assert (result[:, 4].abs() < 1e-30).all()
    torch.testing.assert_close(result[:, 5], x.sum(1) * 1e-37, rtol=0, atol=float(x.abs().max()) * 1e-37)
    assert quantized(weight, None, large=large).weight[3].eq(0).all()
    with_bias = quantized(weight, torch.full((16,), 2.5), large=large)
    assert (product(with_bias, x)[:, 3] == 2.5).all()


@KERNELS
def test_a_bias_of_minus_infinity_forbids_an_output(large: bool) -> None:
    bias = torch.zeros(10)
    bias[4] = -math.inf
    result = product(quantized(random_weight(10, 8), bias, large=large), random_weight(3, 8, 1))
    assert result[:, 4].eq(-math.inf).all()
    assert result[:, [0, 1, 2, 3, 5]].isfinite().all()


@KERNELS
def test_nan_row_is_isolated(large: bool) -> None:
    weight, x = random_weight(12, 16), random_weight(3, 16, 1)
    made = quantized(weight, None, large=large)
    expected = product(made, x)
    x[1, 3] = math.nan
    result = product(made, x)
    assert result[1].isnan().all()
    assert torch.equal(result[[0, 2]], expected[[0, 2]])


@KERNELS
def test_no_rows(large: bool) -> None:
    made = quantized(random_weight(12, 16), torch.ones(12), large=large)
    assert product(made, torch.empty(0, 16)).shape == (0, 12)


@KERNELS
def test_inputs_are_not_modified(large: bool) -> None:
    weight, x = random_weight(12, 16), random_weight(3, 16, 1)
    kept = weight.clone(), x.clone()
    bias = torch.ones(12)
    product(quantized(weight, bias, large=large), x)
    assert torch.equal(weight, kept[0])
    assert torch.equal(x, kept[1])
    assert torch.equal(bias, torch.ones(12))


def test_slice_of_the_outputs() -> None:
    weight, x = random_weight(24, 16), random_weight(6, 16, 1).view(2, 3, 16)
    layer, exact = Int8Linear(weight, torch.ones(24)), x @ weight.t() + 1
    torch.testing.assert_close(layer(x), exact, rtol=0, atol=0.2)
    for rows in (slice(8), slice(8, None)):
        torch.testing.assert_close(layer(x, rows), layer(x)[..., rows], rtol=1e-6, atol=1e-6)


def test_changed_linear_modules_are_not_replaced() -> None:
    class Doubled(torch.nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    network = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)), Doubled(4, 4), Projection(4, 4))
    network[1].register_forward_hook(lambda *_: None)
    network[2].forward = lambda x: x
    quantize(network)
    kinds = [type(module) for module in network]
    assert kinds == [Int8Linear, torch.nn.Linear, torch.nn.Linear, Doubled, Int8Linear]


# Which kernel -------------------------------------------------------------------------------------------


def test_large_matrices_are_multiplied_by_onednn() -> None:
    for outputs, packed in ((LARGE // 64 - 1, False), (LARGE // 64, True)):
        layer = Int8Linear(torch.ones(outputs, 64), None)
        layer(torch.ones(1, 64))
        assert [made.packed is not None for made in layer.products.values()] == [packed]


def test_exact_kernels_are_distinguished_from_saturating_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    check = exact_int8.__wrapped__
    assert check()

    def saturating(a: Tensor, b: Tensor) -> Tensor:
        """As vpmaddubsw does: products of two neighbours are summed in 16 bits."""
        pairs = (a.long()[:, :, None] * b.long()[None]).unflatten(1, (-1, 2)).sum(2)
        return pairs.clamp(-(1 << 15), (1 << 15) - 1).sum(1).int()

    with monkeypatch.context() as patched:
        # with signed rows two products stay below 2**15, with unsigned ones they do not
        patched.setattr(torch, "_int_mm", lambda a, b: saturating(a.long() + 128, b) - 128 * b.sum(0, dtype=torch.long))
        assert not check()

    real = torch.ops.onednn.qlinear_pointwise

    def wrong(unsigned: Tensor, *others: Any) -> Tensor:
        result: Tensor = real(unsigned, *others)
        return result.clamp(max=2.0**21)

    with monkeypatch.context() as patched:
        ops = SimpleNamespace(
            onednn=SimpleNamespace(qlinear_pointwise=wrong, qlinear_prepack=torch.ops.onednn.qlinear_prepack)
        )
        patched.setattr(torch, "ops", ops)
        assert not check()
    assert check()


def test_measured_kernel_is_the_packed_one() -> None:
    made = Product(torch.ones(6, 4, dtype=torch.int8), torch.ones(6), None, large=True)
    assert product(made, torch.ones(2, 4)).eq(127 * 4).all()
