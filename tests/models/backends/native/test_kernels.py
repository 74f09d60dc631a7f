"""The native kernels, one by one, against what PyTorch says of the same numbers."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int64

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from models.backends.native.int8_transformer import ACTIVATION_NUMBERS, Model
from models.backends.native.packing import Norm, Packer
from models.backends.torch.int8_linear import Product, rounded_weight
from tests.models.kernels import Readable, multiplied, needs_exact_int8, pointer, reference_library, times


@pytest.mark.every_value(together=2)
@needs_exact_int8
@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 13, 20, 125, 241])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (20, 70), (3, 5), (130, 129), (512, 16)])
@torch.inference_mode()
def test_product_is_bit_identical_to_pytorch(library: ctypes.CDLL, rows: int, inputs: int, outputs: int) -> None:
    torch.manual_seed(rows)
    linear = nn.Linear(inputs, outputs)
    linear.bias[0] = -torch.inf
    x = torch.randn(rows, inputs) * torch.logspace(-30, 30, rows)[:, None]
    x[rows // 2] = 0
    expected = Product(*rounded_weight(linear.weight), linear.bias, large=False)(x)
    torch.testing.assert_close(multiplied(library, linear, x), expected, rtol=1e-6, atol=0)


@pytest.mark.every_value(together=2)
@pytest.mark.parametrize("rows", [1, 3, 7, 40])
@pytest.mark.parametrize(("inputs", "outputs"), [(1000, 33), (6, 70), (64, 16)])
@torch.inference_mode()
def test_sums_are_exact_where_16_bits_would_saturate(
    library: ctypes.CDLL, rows: int, inputs: int, outputs: int
) -> None:
    generator = torch.Generator().manual_seed(rows)
    weight = torch.randint(-127, 128, (outputs, inputs), generator=generator)
    x = torch.randint(-127, 128, (rows, inputs), generator=generator)
    x[:, 0] = weight[:, 0] = 127  # the largest of each, so that rounding changes nothing
    weight[0], weight[-1], x[0] = 127, -127, 127
    linear = nn.Linear(inputs, outputs)
    linear.weight.copy_(weight)
    packer = Packer(library, [tuple(linear.weight.shape)])
    packed = packer.product(linear.weight, torch.zeros(outputs))
    scale, _ = packer.held
    scale.fill_(1.0)
    assert torch.equal(rounded_weight(linear.weight)[0], weight)
    assert torch.equal(times(library, packed, x / 127.0).long(), x @ weight.t())


@pytest.mark.parametrize("rows", [1, 20, 130])
@torch.inference_mode()
def test_product_is_bit_identical_in_all_variants(library: ctypes.CDLL, rows: int) -> None:
    linear, x = nn.Linear(300, 90), torch.randn(rows, 300) * 5
    expected, result = multiplied(reference_library(), linear, x), multiplied(library, linear, x)
    assert torch.equal(result, expected)


@torch.inference_mode()
def test_zero_row_gives_the_bias_and_nan_row_is_isolated(library: ctypes.CDLL) -> None:
    linear = nn.Linear(32, 48)
    x = torch.randn(4, 32)
    x[0], x[1], x[2, 7] = 0, 1e-42, torch.nan
    y = multiplied(library, linear, x)
    torch.testing.assert_close(y[:2], linear.bias.expand(2, -1), rtol=0, atol=1e-6)
    assert y[2].isnan().all()
    assert torch.equal(y[3], multiplied(library, linear, x[3:])[0])


@pytest.mark.parametrize("name", ["relu", "gelu", "silu"])
@torch.inference_mode()
def test_activations(library: ctypes.CDLL, name: str) -> None:
    linear, x = nn.Linear(40, 75), torch.randn(9, 40) * 8
    expected = getattr(F, name)(multiplied(library, linear, x))
    result = multiplied(library, linear, x, activation=ACTIVATION_NUMBERS[name])
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=2e-6)


@torch.inference_mode()
def test_a_residual_is_added(library: ctypes.CDLL) -> None:
    linear, x, residual = nn.Linear(40, 75), torch.randn(9, 40), torch.randn(9, 75)
    expected = multiplied(library, linear, x) + residual
    torch.testing.assert_close(multiplied(library, linear, x, residual), expected)


@pytest.mark.parametrize("width", [3, 16, 70, 512])
@torch.inference_mode()
def test_layer_norm(library: ctypes.CDLL, width: int) -> None:
    x, weight, bias = torch.randn(7, width) * 50 + 9, torch.randn(width), torch.randn(width)
    x[3] = 4.0
    y = torch.empty_like(x)
    norm = Norm(weight.data_ptr(), bias.data_ptr(), 1e-5, 0)
    library.normalize(byref(norm), pointer(x), c_int64(7), c_int64(width), pointer(y))
    torch.testing.assert_close(y, F.layer_norm(x, [width], weight, bias), rtol=1e-4, atol=1e-4)


@pytest.mark.every_value(together=2)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 16, 17, 63])
@pytest.mark.parametrize(("heads", "width"), [(1, 3), (8, 64), (4, 32), (3, 20)])
@torch.inference_mode()
def test_attention(library: ctypes.CDLL, heads: int, width: int, length: int) -> None:
    torch.manual_seed(length)
    cache = torch.full((length + 1, 2, heads, width), torch.nan, dtype=torch.float16)  # what lies behind is not read
    cache[:length] = torch.randn(length, 2, heads, width)
    query = torch.randn(heads, width) * 20
    model = Model(heads=heads, head_width=width, scale=0.3)
    row = Readable(cache.data_ptr(), cache.data_ptr() + 2 * heads * width, 2 * heads * width, length)
    scores, context = torch.empty(heads * length), torch.full((heads, width), torch.nan)
    library.attend(byref(model), pointer(query), row, row, pointer(scores), pointer(context))
    key, value = cache[:length].float().permute(1, 2, 0, 3)
    expected = F.scaled_dot_product_attention(query[:, None], key, value, scale=0.3)[:, 0]
    torch.testing.assert_close(context, expected, rtol=1e-4, atol=1e-5)


def test_weights_are_held_in_one_byte_each(library: ctypes.CDLL) -> None:
    linear = nn.Linear(512, 256)
    packer = Packer(library, [tuple(linear.weight.shape)])
    packer.product(linear.weight, linear.bias)
    assert packer.taken == 512 * 256
    assert sum(tensor.nbytes for tensor in packer.held) < 4 * 1024
