"""The native kernels against what PyTorch says of the same numbers."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator
from ctypes import byref, c_int64, c_void_p
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.cached_transformer import CachedTransformer
from models.decoding import DecodingOptions, TokenRules, decode
from models.interface import Prompt
from models.native import build
from models.native.library import Model, Norm, Packer
from models.native.transformer import ACTIVATIONS, NativeTransformer
from models.precision import prepared
from models.products import product, quantized
from tests.models import tiny

PROMPTS = [
    Prompt(tuple(tiny.ids((n,), n, low=3).tolist()), (1, *[4] * (n % 3))) for n in (5, 1, 8, 3, 6, 4, 2, 7, 9, 3)
]


class Bytes(ctypes.Structure):
    _fields_ = [("bytes", c_void_p), ("largest", c_void_p), ("sums", c_void_p), ("stride", c_int64)]


class Readable(ctypes.Structure):
    _fields_ = [("keys", c_void_p), ("values", c_void_p), ("stride", c_int64), ("length", c_int64)]


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    found = build.library()
    if found is None:
        pytest.skip("this machine has no native kernels; the log says why")
    return found


def pointer(tensor: Tensor) -> c_void_p:
    assert tensor.is_contiguous()
    return c_void_p(tensor.data_ptr())


def multiplied(
    library: ctypes.CDLL, linear: nn.Linear, x: Tensor, residual: Tensor | None = None, activation: int = 0
) -> Tensor:
    packer, (rows, inputs) = Packer(library, linear), x.shape
    packed = packer.product(linear.weight, linear.bias)
    stride = (inputs + 63) // 64 * 64
    read, largest, sums = torch.zeros(rows * stride, dtype=torch.int8), torch.empty(rows), torch.empty(rows).int()
    into = Bytes(read.data_ptr(), largest.data_ptr(), sums.data_ptr(), stride)
    library.quantize(pointer(x), c_int64(rows), c_int64(inputs), into)
    y = torch.full((rows, linear.out_features), torch.nan)
    library.multiply(
        byref(packed), into, c_int64(rows), None if residual is None else pointer(residual), activation, pointer(y)
    )
    return y


@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 13, 20, 125, 241])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (20, 70), (3, 5), (130, 129), (512, 16)])
@torch.inference_mode()
def test_a_product_is_pytorchs_to_the_bit(library: ctypes.CDLL, rows: int, inputs: int, outputs: int) -> None:
    torch.manual_seed(rows)
    linear = nn.Linear(inputs, outputs)
    linear.bias[0] = -torch.inf
    x = torch.randn(rows, inputs) * torch.logspace(-30, 30, rows)[:, None]
    x[rows // 2] = 0
    expected = product(quantized(linear.weight, linear.bias), x)
    torch.testing.assert_close(multiplied(library, linear, x), expected, rtol=1e-6, atol=0)


@torch.inference_mode()
def test_a_row_of_zeros_or_nearly_is_the_bias_and_a_broken_one_breaks_no_other(library: ctypes.CDLL) -> None:
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
    found = multiplied(library, linear, x, activation=ACTIVATIONS[name])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-6)


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


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 16, 17, 63])
@pytest.mark.parametrize(("heads", "width"), [(1, 3), (8, 64), (4, 32), (3, 20)])
@torch.inference_mode()
def test_attention(library: ctypes.CDLL, heads: int, width: int, length: int) -> None:
    torch.manual_seed(length)
    cache = torch.full((length + 1, 2, heads, width), torch.nan)  # what lies behind is not looked at
    cache[:length] = torch.randn(length, 2, heads, width)
    query = torch.randn(heads, width) * 20
    model = Model(heads=heads, head_width=width, scale=0.3)
    row = Readable(cache.data_ptr(), cache.data_ptr() + 4 * heads * width, 2 * heads * width, length)
    scores, context = torch.empty(heads * length), torch.full((heads, width), torch.nan)
    library.attend(byref(model), pointer(query), row, pointer(scores), pointer(context))
    key, value = cache[:length].permute(1, 2, 0, 3)
    expected = F.scaled_dot_product_attention(query[:, None], key, value, scale=0.3)[:, 0]
    torch.testing.assert_close(context, expected, rtol=1e-4, atol=1e-5)


def logits_of(network: Any, prompts: list[Prompt], steps: int = 4) -> Tensor:
    """[steps, B, V], after the same tokens whatever the network says."""
    state = network.allocate(len(prompts) + 1, 9, 12)
    network.prefill(state, range(len(prompts)), prompts)
    fed = [torch.tensor([p.prefix[-1] for p in prompts]), *tiny.ids((steps - 1, len(prompts)), 5, low=3)]
    return torch.stack([network.step(state, tokens) for tokens in fed])


@pytest.mark.parametrize("name", tiny.OPTIONS)
def test_every_option_of_the_network_says_what_pytorch_says_in_int8(library: ctypes.CDLL, name: str) -> None:
    network = tiny.transformer(**tiny.OPTIONS[name])
    found = network.decodable("int8")
    assert isinstance(found, NativeTransformer)
    in_pytorch = logits_of(CachedTransformer(*prepared(network, "int8")), PROMPTS)
    in_c = logits_of(found, PROMPTS)
    assert in_c.shape == in_pytorch.shape
    used = in_c.isfinite()
    assert torch.equal(used, in_pytorch.isfinite())
    difference = (in_c - in_pytorch).masked_fill(~used, 0).abs().amax(dim=(0, 2))
    # a number that lies between two bytes may be rounded to the other one: that shows in few rows, and little there
    assert difference.median() < 1e-4, difference
    assert difference.max() < 0.3, difference


def test_a_row_does_not_depend_on_its_batch_mates_to_the_bit(library: ctypes.CDLL) -> None:
    network = tiny.transformer().decodable("int8")
    together = logits_of(network, PROMPTS)
    for number, prompt in enumerate(PROMPTS):
        state = network.allocate(1, 9, 12)
        network.prefill(state, [0], [prompt])
        assert torch.equal(network.step(state, torch.tensor([prompt.prefix[-1]]))[0], together[0, number])


def test_a_forced_prefix_is_as_if_it_had_been_stepped(library: ctypes.CDLL) -> None:
    network = tiny.transformer().decodable("int8")
    state = network.allocate(2, 9, 12)
    network.prefill(state, [0, 1], [Prompt((3, 4), (1, 5, 6, 7)), Prompt((3, 4), (1,))])
    network.copy(state, [1], [0])
    for token in (1, 5, 6):
        network.step(state, torch.tensor([token]))
    network.prefill(state, [1], [Prompt((3, 4), (1, 5, 6, 7))])
    logits = network.step(state, torch.tensor([7, 7]))
    assert torch.equal(logits[0], logits[1])


def test_nothing_outside_a_table_or_a_slot_is_touched(library: ctypes.CDLL) -> None:
    network = tiny.transformer().decodable("int8")
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


def test_a_source_of_nothing_is_read_as_nothing(library: ctypes.CDLL) -> None:
    network, prompts = tiny.transformer(), [Prompt((), (1,)), Prompt((3, 4), (1,))]
    for some in (prompts, prompts[:1]):
        expected = logits_of(CachedTransformer(*prepared(network, "int8")), some)
        torch.testing.assert_close(logits_of(network.decodable("int8"), some), expected, rtol=0, atol=0.3)


@pytest.mark.parametrize("options", [{}, {"beam": 3, "n_best": 3}, {"temperature": 0.8, "seed": 5}], ids=str)
def test_all_that_decodes_decodes_together_as_alone(library: ctypes.CDLL, options: dict[str, Any]) -> None:
    network, rules = tiny.transformer(), TokenRules(2, (0, 1))
    chosen = DecodingOptions(max_new_tokens=8, **options)
    together = decode(network, rules, PROMPTS, chosen, slots=6, precision="int8")
    assert together == [decode(network, rules, [prompt], chosen, precision="int8")[0] for prompt in PROMPTS]


def test_weights_are_held_in_one_byte_each(library: ctypes.CDLL) -> None:
    linear = nn.Linear(512, 256)
    packer = Packer(library, linear)
    packer.product(linear.weight, linear.bias)
    assert packer.taken == 512 * 256
    assert sum(tensor.nbytes for tensor in packer.held) < 4 * 1024


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A cache folder that holds nothing yet, and a library that was not looked for yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(build, "cpu_flags", lambda: build.NEEDED)
    build.library.cache_clear()
    yield tmp_path
    build.library.cache_clear()


def test_without_a_compiler_int8_runs_in_pytorch_and_the_log_says_so(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "")
    assert build.library() is None
    assert "there is no C compiler" in caplog.text
    assert type(tiny.transformer().decodable("int8")) is CachedTransformer


def test_what_a_compiler_says_is_in_the_log(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(build, "FLAGS", ("-fno-such-flag",))
    assert build.library() is None
    assert "no-such-flag" in caplog.text or "there is no C compiler" in caplog.text
    assert not list((fresh / "parlance").iterdir())


def test_a_library_beside_its_sources_needs_no_compiler(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler --at-all")
    with pytest.raises(FileNotFoundError, match="no-such-compiler"):
        build.built()
    monkeypatch.setattr(build, "HERE", fresh)
    kit = build.INT8._replace(sources=())
    (fresh / "native.h").write_text("/* nothing */", encoding="utf-8")
    (fresh / build.file_name(kit)).touch()
    assert build.built(kit) == fresh / build.file_name(kit)


def test_another_cpu_is_not_asked_to_run_it(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(build, "cpu_flags", lambda: build.NEEDED - {"avx512_vnni"})
    assert build.library() is None
    assert "avx512_vnni" in caplog.text
    assert not list(fresh.iterdir())


def test_flags_of_a_cpu(tmp_path: Path) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text("processor\t: 0\nflags\t\t: fpu avx512f\n\nprocessor\t: 1\n", encoding="utf-8")
    assert build.cpu_flags(told) == {"fpu", "avx512f"}
    assert build.cpu_flags(tmp_path / "nowhere") == set()


def test_another_source_or_flag_is_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.fingerprint()
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-O2"))
    assert build.fingerprint() != before
