"""The instruction sets that the kernels are compiled for, and which of them this CPU has.

Each is a fixed set and not the machine's own: what one machine built runs on every one with the same flags. There are
three libraries: int8 for the Transformer, which needs AVX2; fp32 for recurrent networks and draws, and another for the
training of Transformers, which need nothing beyond their architecture and are the better for wider vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
CHOICE = "PARLANCE_NATIVE"
NONE = "none"


@dataclass(frozen=True, slots=True)
class Variant:
    """One library for one instruction set. needed: as Linux calls them. flags: what makes a compiler use no more than
    these."""

    name: str
    needed: frozenset[str]
    flags: tuple[str, ...]
    sources: tuple[str, ...] = ("products.c", "attention.c", "likeliest.c", "copying.c", "transformer.c")
    headers: tuple[str, ...] = ("native.h", "avx512.h", "avx2.h", "tiles.h")


AVX512 = Variant(
    "avx512_vnni",
    frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "fma", "bmi2", "adx"}),
    ("-march=cascadelake",),
)
AVX_VNNI = Variant(
    "avx_vnni", frozenset({"avx2", "fma", "avx_vnni"}), ("-mavx2", "-mfma", "-mavxvnni", "-mtune=haswell")
)
AVX2 = Variant("avx2", frozenset({"avx2", "fma"}), ("-mavx2", "-mfma", "-mtune=haswell"))
VARIANTS = (AVX512, AVX_VNNI, AVX2)  # the best first
NAMES = tuple(variant.name for variant in VARIANTS)
FP32 = tuple(
    Variant(
        "-".join(("fp32", *needed[:1])),
        frozenset(needed),
        tuple(f"-m{name}" for name in needed),
        sources=("matrices.c", "recurrent.c", "draws.c"),
        headers=("vectors.h", "recurrent.h", "tiles.h"),
    )
    for needed in (("avx512f", "avx512dq", "fma"), ("avx2", "fma"), ())
)
TRAINING = tuple(
    replace(
        variant,
        name=variant.name.replace("fp32", "training"),
        sources=tuple(
            f"training/{name}.c"
            for name in (
                *("dense", "heads", "around", "norm", "attention", "feed_forward"),
                *("embedding", "cross_entropy", "team"),
            )
        ),
        headers=("vectors.h", "training/training.h", "training/around.h", "training/heads.h"),
    )
    for variant in FP32
)


def cpu_flags(path: Path = CPUINFO) -> set[str]:
    """What this CPU can do and its system lets it; nothing where Linux does not tell."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    return set(next((line.split(":")[1] for line in text.splitlines() if line.startswith("flags")), "").split())


def runnable(choice: str, flags: set[str]) -> list[Variant]:
    """Those that a CPU with these flags has, the best first. choice: the name of the only one to use, NONE, or nothing
    for all. ValueError if there is no such variant, or the CPU does not have it."""
    if choice == NONE:
        return []
    if choice and choice not in NAMES:
        raise ValueError(f'{CHOICE} is "{choice}": it should be one of {", ".join(NAMES)}, or {NONE}')
    wanted = [variant for variant in VARIANTS if choice in ("", variant.name)]
    found = [variant for variant in wanted if variant.needed <= flags]
    if choice and not found:
        missing = ", ".join(sorted(wanted[0].needed - flags))
        raise ValueError(f'{CHOICE} is "{choice}": this CPU does not have {missing}')
    return found


def fp32_runnable(choice: str, flags: set[str]) -> list[Variant]:
    """As `runnable`, of FP32; a choice stands for what its CPUs have."""
    if choice == NONE:
        return []
    had = flags.intersection(*(variant.needed for variant in runnable(choice, flags) if choice))
    return [variant for variant in FP32 if variant.needed <= had]
