"""The kernel libraries: variants per instruction set, the choice for this CPU, and compilation at first use with the
system's C compiler, cached in the user's cache folder.

`python -m models.backends.native.build` compiles every variant of this architecture beside its sources instead, for an
image without a compiler. CC is the compiler command. PARLANCE_NATIVE, for diagnosis, names the one variant to use, or
`none`."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import logging
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from ctypes import addressof, c_char
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the image's build of the kernels needs no numpy
    import numpy.typing as npt

from models.backends.native.cpu import AARCH64, X86_64, architecture, cpu_flags

SOURCES = Path(__file__).parent / "csrc"
CHOICE = "PARLANCE_NATIVE"
NONE = "none"
NO_MEMORY, OUT_OF_RANGE = 1, 2


class UnavailableVariant(ValueError):
    """PARLANCE_NATIVE names no variant, or one that this CPU does not support. The message is a clause."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One library for one instruction set. needed: CPU flags as in /proc/cpuinfo. flags: compiler flags that enable no
    more than these. folder: of the sources and headers. architecture: as `cpu.architecture` names it; "": any.
    trial: a function of the library that returns 0 if the library may be used, or a number of REFUSALS; "": none."""

    name: str
    needed: frozenset[str]
    flags: tuple[str, ...]
    sources: tuple[str, ...] = (
        *("team.c", "products.c", "attention.c", "likeliest.c", "screen.c", "copying.c", "transformer.c", "beam.c"),
    )
    headers: tuple[str, ...] = ("native.h", "avx512.h", "avx2.h", "neon.h", "tiles.h", "unroll.h")
    folder: Path = SOURCES
    architecture: str = X86_64
    trial: str = ""


AVX512 = Variant(
    "avx512_vnni",
    frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "f16c", "fma", "bmi2", "adx"}),
    ("-march=cascadelake",),
)
AMX = replace(
    AVX512,
    name="amx",
    needed=AVX512.needed | {"amx_tile", "amx_int8"},
    flags=(*AVX512.flags, "-mamx-tile", "-mamx-int8", "-DAMX"),  # compilers have several macros for it
    sources=(*AVX512.sources, "amx.c"),
    headers=(*AVX512.headers, "amx.h"),
    trial="try_tiles",
)
REFUSALS = {3: "the system does not let this process use its tiles", 4: "its products differ from plain ones"}  # amx.h
AVX_VNNI = Variant(
    "avx_vnni",
    frozenset({"avx2", "fma", "f16c", "avx_vnni"}),
    ("-mavx2", "-mfma", "-mf16c", "-mavxvnni", "-mtune=haswell"),
)
AVX2 = Variant("avx2", frozenset({"avx2", "fma", "f16c"}), ("-mavx2", "-mfma", "-mf16c", "-mtune=haswell"))
# Armv8.2 has new atomic operations, which compilers then use
NEON_I8MM = Variant(
    "neon_i8mm",
    frozenset({"asimd", "atomics", "asimddp", "i8mm"}),
    ("-march=armv8.2-a+dotprod+i8mm",),
    architecture=AARCH64,
)
NEON_DOT = Variant(
    "neon_dot", frozenset({"asimd", "atomics", "asimddp"}), ("-march=armv8.2-a+dotprod",), architecture=AARCH64
)
NEON = Variant("neon", frozenset({"asimd"}), ("-march=armv8-a",), architecture=AARCH64)
VARIANTS = (AMX, AVX512, AVX_VNNI, AVX2, NEON_I8MM, NEON_DOT, NEON)  # best first
NAMES = tuple(variant.name for variant in VARIANTS)
FP32 = tuple(
    Variant(
        "-".join(("fp32", *needed[:1])),
        frozenset(needed),
        tuple(f"-m{name}" for name in needed),
        sources=("matrices.c", "recurrent.c", "gru_steps.c", "draws.c"),
        headers=("vectors.h", "gates.h", "recurrent.h", "tiles.h", "unroll.h"),
        architecture=X86_64 if needed else "",
    )
    for needed in (("avx512f", "avx512dq", "fma"), ("avx2", "fma"), ())
)
TRAINING = tuple(
    replace(
        variant,
        name=variant.name.replace("fp32", "training"),
        sources=(
            *("training_dense.c", "training_heads.c", "training_residual.c", "training_norm.c", "training_attention.c"),
            *("training_feed_forward.c", "training_embedding.c", "training_cross_entropy.c", "training_team.c"),
        ),
        headers=("vectors.h", "unroll.h", "training.h", "training_residual.h", "training_heads.h"),
    )
    for variant in FP32
)
EVERY = (*VARIANTS, *FP32, *TRAINING)


def runnable(choice: str, flags: set[str]) -> list[Variant]:
    """The int8 variants for a CPU with these flags, best first. choice: the name of a variant, NONE, or "" for all.
    UnavailableVariant for an unknown variant or one that the CPU does not support."""
    if choice == NONE:
        return []
    if choice and choice not in NAMES:
        raise UnavailableVariant(f'{CHOICE} is "{choice}": it should be one of {", ".join(NAMES)}, or {NONE}')
    if not choice:
        return [variant for variant in VARIANTS if variant.needed <= flags]
    chosen = VARIANTS[NAMES.index(choice)]
    if missing := chosen.needed - flags:
        raise UnavailableVariant(f'{CHOICE} is "{choice}": this CPU does not have {", ".join(sorted(missing))}')
    return [chosen]


def fp32_runnable(choice: str, flags: set[str], variants: Sequence[Variant] = FP32) -> list[Variant]:
    """As `runnable`, for FP32 or TRAINING; a chosen variant stands for the flags it needs."""
    if choice == NONE:
        return []
    had = flags.intersection(*(variant.needed for variant in runnable(choice, flags)[:1] if choice))
    return [variant for variant in variants if variant.needed <= had]


log = logging.getLogger(__name__)

# two libraries define functions of the same name; macOS looks for a library's own by itself
SYMBOLIC = () if sys.platform == "darwin" else ("-Wl,-Bsymbolic",)
FLAGS = (
    *("-O3", "-fPIC", "-shared", *SYMBOLIC),
    *("-fopenmp-simd", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
)
COMPILERS = ("cc", "gcc", "clang")
BUILD_LIMIT_S = 30  # less than the start timeout of a device process: a hanging compiler counts as missing


def library() -> ctypes.CDLL | None:
    """The best int8 library for this CPU, or None (the log says why). UnavailableVariant."""
    return loaded("int8", os.environ.get(CHOICE, ""))


def fp32_library() -> ctypes.CDLL | None:
    """The library for recurrent networks and sampling; otherwise as `library`."""
    return loaded("fp32", os.environ.get(CHOICE, ""))


def training_library() -> ctypes.CDLL | None:
    """The library for the training of Transformers; otherwise as `library`."""
    return loaded("training", os.environ.get(CHOICE, ""))


IN_PYTORCH = {"int8": "int8 runs", "fp32": "recurrent networks run", "training": "training runs"}


@cache
def loaded(purpose: str, choice: str) -> ctypes.CDLL | None:
    """purpose: a key of IN_PYTORCH. choice: see `runnable`. Cached per process."""
    flags = cpu_flags()
    if purpose == "int8":
        variants = runnable(choice, flags)
    else:
        variants = fp32_runnable(choice, flags, TRAINING if purpose == "training" else FP32)
    if variants:
        return first_loadable(variants, purpose)
    needed = f"a CPU under Linux with {', '.join(sorted(AVX2.needed - flags))}"
    if architecture() != X86_64:
        needed = "an x86-64 CPU, or an ARM CPU of 64 bits under Linux or macOS"
    why = f"{CHOICE} is {choice}" if choice else f"native kernels need {needed}"
    log.info("%s in PyTorch: %s", IN_PYTORCH[purpose], why)
    return None


def name_of(library: ctypes.CDLL | None) -> str:
    """The file name, which includes the version of the sources; "" for None."""
    return Path(library._name).stem if library else ""


def first_loadable(variants: Sequence[Variant], purpose: str) -> ctypes.CDLL | None:
    """Loads the first variant that can be built; logs it, and the failures before it."""
    problems: dict[str, None] = {}  # a dict, because one problem may affect all variants
    for variant in variants:
        try:
            found = opened(built(variant), variant)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # RuntimeError: no home directory
            way_out = " (XDG_CACHE_HOME can name a folder to write to)" if may_not_write(error) else ""
            problems[f"{error}{way_out}"] = None
            if isinstance(error, subprocess.TimeoutExpired):
                break
            continue
        log.info("%s runs in native kernels for %s", purpose, variant.name)
        if problems:
            log.warning("better ones cannot be had: %s", "; ".join(problems))
        return found
    log.warning("%s runs in PyTorch, slower, for its native kernels cannot be had: %s", purpose, "; ".join(problems))
    return None


def opened(path: Path, variant: Variant) -> ctypes.CDLL:
    """The loaded library. One of the cache that cannot be loaded is compiled anew: a machine with a newer C library may
    have left it in a shared home directory. OSError if its own trial refuses it."""
    try:
        found = ctypes.CDLL(str(path))
    except OSError as error:
        if path.parent == variant.folder:
            raise
        log.warning("%s is compiled anew: %s", variant.name, error)
        compile_to(path, variant)
        found = ctypes.CDLL(str(path))
    if variant.trial and (status := getattr(found, variant.trial)()):
        raise OSError(f"{variant.name}: {REFUSALS[status]}")
    return found


def may_not_write(error: Exception) -> bool:
    """Whether a folder was refused: the home of a service's user is often one that it may not write to."""
    return isinstance(error, PermissionError) or (isinstance(error, OSError) and error.errno == errno.EROFS)


def built(variant: Variant) -> Path:
    """The library's file, compiled if missing. OSError or SubprocessError if that fails."""
    shipped = variant.folder / file_name(variant)
    if shipped.exists():
        return shipped
    kept = own_folder(folder()) / file_name(variant)
    if not kept.exists():
        compile_to(kept, variant)
    require_own(kept)
    return kept


def own_folder(path: Path) -> Path:
    """The folder, made where it is missing, without symbolic links. PermissionError if another user can put files into
    it, or another folder in its place: code that is kept in it runs in this process."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = path.resolve(strict=True)  # a link of another user's could lead elsewhere a moment later
    require_own(path)
    for parent in path.parents:
        status = parent.stat()
        others = stat.S_IWOTH if status.st_gid == os.getegid() else stat.S_IWOTH | stat.S_IWGRP
        # in a folder with the sticky bit, such as /tmp, nobody renames what is another's
        if status.st_uid not in (0, os.geteuid()) or (status.st_mode & others and not status.st_mode & stat.S_ISVTX):
            raise PermissionError(f"{path} is not this user's alone to write to: another can rename it in {parent}")
    return path


def require_own(path: Path) -> None:
    """PermissionError if another user can write to the path, or put another file in its place by a link."""
    status = path.lstat()
    is_link = stat.S_ISLNK(status.st_mode)
    if is_link or status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{path} is not this user's alone to write to")


def file_name(variant: Variant) -> str:
    return f"parlance-{variant.name}-{fingerprint(variant)}.so"


def fingerprint(variant: Variant) -> str:
    """A hash of sources, flags and platform: every version has its own file, also where machines of several kinds, or
    a Mac's two kinds of processes, share a home directory."""
    digest = hashlib.sha256(" ".join((*FLAGS, *variant.flags, sys.platform, architecture())).encode())
    for source in variant.headers + variant.sources:
        digest.update((variant.folder / source).read_bytes())
    return digest.hexdigest()[:16]


def folder() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "parlance"


def compile_to(path: Path, variant: Variant, *, patient: bool = False) -> None:
    """Compiles to a temporary file and renames it, so concurrent builds are safe. patient: no time limit."""
    found = next(filter(None, map(shutil.which, COMPILERS)), None)
    compiler = shlex.split(os.environ.get("CC", "")) or ([found] if found else [])
    if not compiler:
        raise FileNotFoundError(f"there is no C compiler ({', '.join(COMPILERS)})")
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        fresh = Path(work) / path.name
        sources = [str(variant.folder / source) for source in variant.sources]
        limit_s = None if patient else BUILD_LIMIT_S
        command = [*compiler, *FLAGS, *variant.flags, "-o", str(fresh), *sources, "-lm", "-pthread"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        if done.returncode:
            raise OSError(f"{compiler[0]}: {done.stderr.strip()[-500:]}")
        fresh.chmod(0o755)  # many umasks make new files group-writable, which `built` would refuse
        with fresh.open("rb") as file:
            os.fsync(file.fileno())  # a power loss would leave the name with half of the file
        fresh.replace(path)


NO_BYTES = c_char * 0


def address_of(array: npt.NDArray[Any]) -> int:
    """Of the data of a writable, C-contiguous array: a fifth of the time of `array.ctypes.data`, which is a tenth of a
    step of a small model. Other arrays raise."""
    return addressof(NO_BYTES.from_buffer(array))  # type: ignore[arg-type]  # its stubs name no buffer


def raise_for_status(
    status: int, out_of_range: str, no_memory: str = "there is no memory for what the rows of a call need"
) -> None:
    """Raises the exception for the status that a kernel returns, if it is one; the constants are the C sources'."""
    if status == NO_MEMORY:
        raise MemoryError(no_memory)
    if status == OUT_OF_RANGE:
        raise IndexError(out_of_range)


def why_none() -> str:
    """A clause with the reason why a library is missing."""
    choice = os.environ.get(CHOICE, "")
    return f"{CHOICE} is {choice}" if choice == NONE else "our kernels cannot be had on this machine"


def build_beside_sources(variants: Sequence[Variant]) -> int:
    """Compiles the variants of this architecture. Returns 1 if any failed, with the error on stderr."""
    status = 0
    for variant in (variant for variant in variants if variant.architecture in ("", architecture())):
        try:
            compile_to(variant.folder / file_name(variant), variant, patient=True)
        except (OSError, subprocess.SubprocessError) as error:
            sys.stderr.write(f"{variant.name}: {error}\n")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(build_beside_sources(EVERY))
