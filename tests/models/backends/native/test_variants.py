"""Which variant of the native kernels a CPU gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.backends.native.build import (
    AMX,
    AVX2,
    AVX512,
    AVX_VNNI,
    NAMES,
    NEON,
    NEON_DOT,
    NEON_I8MM,
    VARIANTS,
    fp32_runnable,
    runnable,
)
from models.backends.native.cpu import apple_flags, linux_arm_flags, x86_flags

ZEN_3 = {"fma", "f16c", "avx2", "bmi1", "bmi2", "adx"}
SKYLAKE_X = ZEN_3 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
ICE_LAKE = SKYLAKE_X | {"avx512_vnni"}
SAPPHIRE_RAPIDS = ICE_LAKE | {"avx_vnni", "amx_tile", "amx_int8", "amx_bf16"}
ALDER_LAKE = ZEN_3 | {"avx_vnni"}
RASPBERRY_PI_4 = {"asimd"}
GRAVITON_2 = {"asimd", "atomics", "asimddp"}
GRAVITON_3 = GRAVITON_2 | {"i8mm"}


def test_flags_of_a_cpu(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu avx512f\n\nprocessor\t: 1\n", encoding="utf-8")
    assert x86_flags(cpuinfo) == {"fpu", "avx512f"}
    assert x86_flags(tmp_path / "nowhere") == set()


def test_flags_of_an_arm_cpu_under_linux() -> None:
    """The words that a Graviton 2 has, and a Graviton 3: `LD_SHOW_AUXV=1 /bin/true`."""
    assert linux_arm_flags(0x119FFF, 0x0) == GRAVITON_2
    assert linux_arm_flags(0x119FFF, 1 << 13) == GRAVITON_3
    assert linux_arm_flags(0x8FF & ~(1 << 8), 1 << 20) == RASPBERRY_PI_4


def test_flags_of_apple_silicon() -> None:
    m1 = {"hw.optional.arm.FEAT_LSE": 1, "hw.optional.arm.FEAT_DotProd": 1, "hw.optional.arm.FEAT_I8MM": 0}
    m2 = {**m1, "hw.optional.arm.FEAT_I8MM": 1}
    assert runnable("", apple_flags(lambda name: m1[name])) == [NEON_DOT, NEON]
    assert runnable("", apple_flags(lambda name: m2[name])) == [NEON_I8MM, NEON_DOT, NEON]
    assert runnable("", apple_flags(lambda name: 0)) == [NEON]  # macOS 11 knows none of the names


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (ZEN_3, [AVX2]),
        (SKYLAKE_X, [AVX2]),
        (ALDER_LAKE, [AVX_VNNI, AVX2]),
        (ICE_LAKE, [AVX512, AVX2]),
        (ICE_LAKE | ALDER_LAKE, [AVX512, AVX_VNNI, AVX2]),
        (SAPPHIRE_RAPIDS, [AMX, AVX512, AVX_VNNI, AVX2]),
        (ICE_LAKE - {"fma"}, []),
        ({"avx", "fma"}, []),
        (RASPBERRY_PI_4, [NEON]),
        (GRAVITON_2, [NEON_DOT, NEON]),
        (GRAVITON_3, [NEON_I8MM, NEON_DOT, NEON]),
        (GRAVITON_3 - {"asimddp"}, [NEON]),
        (set(), []),
    ],
)
def test_best_variant_that_the_cpu_flags_allow(flags: set[str], found: list[object], tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {' '.join(sorted(flags))}\n", encoding="utf-8")
    assert runnable("", x86_flags(cpuinfo)) == found


def test_a_variant_can_be_chosen_by_name_or_none() -> None:
    for variant in VARIANTS:
        assert runnable(variant.name, SAPPHIRE_RAPIDS | GRAVITON_3)[0] == variant
    assert runnable("avx2", SAPPHIRE_RAPIDS) == [AVX2]
    assert runnable("none", ICE_LAKE) == []


def test_recurrent_networks_run_beside_tiles_in_the_widest_vectors() -> None:
    assert [variant.name for variant in fp32_runnable("amx", SAPPHIRE_RAPIDS)] == ["fp32-avx512f", "fp32"]


def test_unavailable_variant_is_refused() -> None:
    with pytest.raises(ValueError, match=f'PARLANCE_NATIVE is "sse": it should be one of {", ".join(NAMES)}, or none'):
        runnable("sse", ICE_LAKE)
    with pytest.raises(ValueError, match='PARLANCE_NATIVE is "avx512_vnni": this CPU does not have avx512_vnni'):
        runnable("avx512_vnni", SKYLAKE_X)
    with pytest.raises(ValueError, match='PARLANCE_NATIVE is "amx": this CPU does not have amx_int8, amx_tile'):
        runnable("amx", ICE_LAKE)


def test_recurrent_networks_need_no_flag_and_get_the_widest_vectors() -> None:
    assert [variant.name for variant in fp32_runnable("", ICE_LAKE)] == ["fp32-avx512f", "fp32-avx2", "fp32"]
    assert [variant.name for variant in fp32_runnable("", ZEN_3)] == ["fp32-avx2", "fp32"]
    assert [variant.name for variant in fp32_runnable("", set())] == ["fp32"]
    assert [variant.name for variant in fp32_runnable("avx2", ICE_LAKE)] == ["fp32-avx2", "fp32"]
    assert fp32_runnable("none", ICE_LAKE) == []
    for choice in ("", "neon_dot"):
        assert [variant.name for variant in fp32_runnable(choice, GRAVITON_2)] == ["fp32"]
