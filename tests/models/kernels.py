"""The native kernels, each variant that this CPU can run, called one by one."""

from __future__ import annotations

import ctypes
import shutil
from ctypes import byref, c_int64, c_void_p
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from models.backends.native import build
from models.backends.native.build import AMX, AVX2, AVX512, AVX_VNNI, VARIANTS, Variant
from models.backends.native.cpu import architecture, cpu_flags
from models.backends.native.packing import Packer, Product
from models.backends.torch.int8_linear import exact_int8
from tests import arm

needs_exact_int8 = pytest.mark.skipif(not exact_int8(), reason="PyTorch does not sum int8 products exactly on this CPU")
EMULATED = Variant(f"{AVX_VNNI.name} emulated", AVX2.needed, (*AVX2.flags, "-include", "emulated.h"))
AMX_EMULATED = replace(
    AMX,
    name=f"{AMX.name} emulated",
    needed=AVX512.needed,
    flags=(*AVX512.flags, "-DLEAST_DEPTH=1", "-include", str(Path(__file__).with_name("amx_emulated.h"))),
)
EMULATIONS = (EMULATED, AMX_EMULATED)
OWN = tuple(variant for variant in VARIANTS if variant.architecture == architecture())
TESTED = (
    *(variant.name for variant in OWN),
    # compiled anew
    *(pytest.param(variant.name, marks=pytest.mark.slow) for variant in EMULATIONS if AVX2 in OWN),
)
if arm.active:
    TESTED = tuple(variant.name for variant in build.runnable("", cpu_flags())[:1])
EMULATION = """
#include <immintrin.h>
#define __AVXVNNI__ 1
static inline __m256i emulated(__m256i sums, __m256i weights, __m256i bytes) {
    __m256i low = _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(weights)),
                                    _mm256_cvtepi8_epi16(_mm256_castsi256_si128(bytes)));
    __m256i high = _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm256_extracti128_si256(weights, 1)),
                                     _mm256_cvtepi8_epi16(_mm256_extracti128_si256(bytes, 1)));
    return _mm256_add_epi32(sums, _mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0xd8));
}
#define _mm256_dpbusd_avx_epi32 emulated
"""


class Bytes(ctypes.Structure):
    _fields_ = [("bytes", c_void_p), ("largest", c_void_p), ("sums", c_void_p), ("stride", c_int64)]


class Readable(ctypes.Structure):
    _fields_ = [("keys", c_void_p), ("values", c_void_p), ("stride", c_int64), ("length", c_int64)]


def needs(variant: Variant) -> None:
    """Skips the test where this CPU would stop at the first instruction that it does not have."""
    if missing := variant.needed - cpu_flags():
        pytest.skip(f"this CPU does not have {', '.join(sorted(missing))} and would stop at its first such instruction")


def variant_library(name: str) -> ctypes.CDLL:
    """Skips the test where it cannot run."""
    variant = next(each for each in (*VARIANTS, *EMULATIONS) if each.name == name)
    needs(variant)
    return compiled(emulation(variant) if variant in EMULATIONS else build.loaded("int8", name))


def reference_library() -> ctypes.CDLL:
    """Of the variant that needs least, or under emulation of AVX2."""
    if not arm.active:
        return variant_library(OWN[-1].name)
    return arm.native_library(AVX2)


def forget() -> None:
    """Clears the memoized library lookups, failed ones included, before and after a test that hides a library:
    a step of one network may look up another's."""
    build.loaded.cache_clear()


def compiled(found: ctypes.CDLL | None) -> ctypes.CDLL:
    """Skips the test where there is no C compiler, for there users have PyTorch's steps too; where there is one and the
    kernels are not built, it fails."""
    if found is None and not any(map(shutil.which, build.COMPILERS)):
        pytest.skip("no C compiler is installed, and without one there are no native kernels to test")
    assert found is not None, "a C compiler is installed, and the kernels were not built: the log says why"
    return found


@cache
def emulation(variant: Variant) -> ctypes.CDLL | None:
    """The kernels for AVX-VNNI or AMX, which few CPUs have, with the instructions that are missing made of others. Kept
    beside the other kernels: the compiler takes as long as all tests of them."""
    texts = (EMULATION, Path(__file__).with_name("amx_emulated.h").read_text(encoding="utf-8"))
    headers = build.own_folder(build.folder()) / f"emulation-{sha256(''.join(texts).encode()).hexdigest()[:16]}"
    headers.mkdir(exist_ok=True)
    (headers / "emulated.h").write_text(EMULATION, encoding="utf-8")
    variant = replace(variant, flags=(*variant.flags, "-I", str(headers)))
    library = headers / build.file_name(variant)
    try:
        if not library.exists():
            build.compile_to(library, variant, patient=True)
    except FileNotFoundError:
        return None
    return build.opened(library, variant)


def pointer(tensor: Tensor) -> c_void_p:
    assert tensor.is_contiguous()
    return c_void_p(tensor.data_ptr())


def multiplied(
    library: ctypes.CDLL, linear: nn.Linear, x: Tensor, residual: Tensor | None = None, activation: int = 0
) -> Tensor:
    packer = Packer(library, [tuple(linear.weight.shape)])
    return times(library, packer.product(linear.weight, linear.bias), x, residual, activation)


def quantized(library: ctypes.CDLL, x: Tensor) -> tuple[Bytes, tuple[Tensor, ...]]:
    """x [N, I] in int8, and the tensors that hold it."""
    rows, inputs = x.shape
    stride = (inputs + 63) // 64 * 64
    read = torch.zeros(rows * stride * library.element_size(), dtype=torch.int8)
    largest, sums = torch.empty(rows), torch.empty(rows).int()
    into = Bytes(read.data_ptr(), largest.data_ptr(), sums.data_ptr(), stride)
    library.quantize(pointer(x.contiguous()), c_int64(rows), c_int64(inputs), into)
    return into, (read, largest, sums)


def times(
    library: ctypes.CDLL, packed: Product, x: Tensor, residual: Tensor | None = None, activation: int = 0
) -> Tensor:
    """x [N, I] -> [N, O]."""
    rows, (into, _kept) = len(x), quantized(library, x)
    y = torch.full((rows, packed.outputs), torch.nan)
    library.multiply(
        c_int64(1),  # thread
        *(byref(packed), into, c_int64(rows)),
        *(None if residual is None else pointer(residual), activation, pointer(y)),
    )
    return y
