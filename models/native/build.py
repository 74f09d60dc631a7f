"""The libraries, compiled by the system's own C compiler at its first use and kept in the user's cache folder.

`python -m models.native.build` puts them beside their sources instead, every variant, for an image that is to have no
compiler. CC, as elsewhere, is the command that compiles. PARLANCE_NATIVE, for diagnosis, is the name of the variant to
use (see variants.py) and no other, or `none`."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from models.native.variants import AVX2, CHOICE, FP32, TRAINING, VARIANTS, Variant, cpu_flags, fp32_runnable, runnable

log = logging.getLogger(__name__)

HERE = Path(__file__).parent
FLAGS = (
    *("-O3", "-fPIC", "-shared", "-Wl,-Bsymbolic"),  # the two libraries have functions of one name
    *("-fopenmp-simd", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
)
COMPILERS = ("cc", "gcc", "clang")
BUILD_LIMIT_S = 30  # less than a device process has to start: a compiler that hangs is one that is not there


def library() -> ctypes.CDLL | None:
    """int8, for this CPU the best that can be had. None, and in the log why, if there is none. ValueError if
    PARLANCE_NATIVE asks for what is not there."""
    return loaded(os.environ.get(CHOICE, ""))


def fp32_library() -> ctypes.CDLL | None:
    """For recurrent networks, and for draws of any; otherwise as `library`."""
    return fp32_loaded(os.environ.get(CHOICE, ""))


@cache
def loaded(choice: str) -> ctypes.CDLL | None:
    """Looked for once a process. choice: as `runnable` takes it."""
    flags = cpu_flags()
    variants = runnable(choice, flags)
    if not variants:
        missing = ", ".join(sorted(AVX2.needed - flags))
        why = f"{CHOICE} is {choice}" if choice else f"native kernels need a CPU under Linux with {missing}"
        log.info("int8 runs in PyTorch: %s", why)
        return None
    return first_of(variants, "int8")


@cache
def fp32_loaded(choice: str) -> ctypes.CDLL | None:
    """As `loaded`."""
    variants = fp32_runnable(choice, cpu_flags())
    if not variants:
        log.info("recurrent networks run in PyTorch: %s is %s", CHOICE, choice)
        return None
    return first_of(variants, "fp32")


def training_library() -> ctypes.CDLL | None:
    """For Transformers in training; otherwise as `library`."""
    return training_loaded(os.environ.get(CHOICE, ""))


@cache
def training_loaded(choice: str) -> ctypes.CDLL | None:
    """As `loaded`."""
    usable = {variant.flags for variant in fp32_runnable(choice, cpu_flags())}
    variants = [variant for variant in TRAINING if variant.flags in usable]
    return first_of(variants, "training") if variants else None


def name_of(library: ctypes.CDLL | None) -> str:
    """Down to the version of its sources; "" where PyTorch has to do."""
    return Path(library._name).stem if library else ""


def first_of(variants: Sequence[Variant], precision: str) -> ctypes.CDLL | None:
    """The first that can be had; the log says which, and what became of those before it."""
    problems: dict[str, None] = {}  # the same one may stop all variants
    for variant in variants:
        try:
            found = ctypes.CDLL(str(built(variant)))
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # RuntimeError: nobody's home
            problems[str(error)] = None
            if isinstance(error, subprocess.TimeoutExpired):
                break
            continue
        log.info("%s runs in native kernels for %s", precision, variant.name)
        if problems:
            log.warning("better ones cannot be had: %s", "; ".join(problems))
        return found
    log.warning("%s runs in PyTorch, slower, for its native kernels cannot be had: %s", precision, "; ".join(problems))
    return None


def built(variant: Variant) -> Path:
    """The library's file, built if it is not there yet. OSError or SubprocessError if it cannot be."""
    shipped = HERE / file_name(variant)
    if shipped.exists():
        return shipped
    kept = folder() / file_name(variant)
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_others(kept.parent)
    if not kept.exists():
        compile_to(kept, variant)
    refuse_others(kept)
    return kept


def refuse_others(path: Path) -> None:
    """OSError if somebody else could have put it there: what is loaded runs."""
    status = path.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{path} is not this user's alone to write to")


def file_name(variant: Variant) -> str:
    return f"parlance-{variant.name}-{fingerprint(variant)}.so"


def fingerprint(variant: Variant) -> str:
    """Of the sources and the flags: another version of either is another file."""
    digest = hashlib.sha256(" ".join(FLAGS + variant.flags).encode())
    for source in variant.headers + variant.sources:
        digest.update((HERE / source).read_bytes())
    return digest.hexdigest()[:16]


def folder() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "parlance"


def compile_to(path: Path, variant: Variant, *, patient: bool = False) -> None:
    """Processes that build at the same time each write a file of their own; the last one to finish stays.
    patient: however long it takes."""
    found = next(filter(None, map(shutil.which, COMPILERS)), None)
    compiler = shlex.split(os.environ.get("CC", "")) or ([found] if found else [])
    if not compiler:
        raise FileNotFoundError(f"there is no C compiler ({', '.join(COMPILERS)})")
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        fresh = Path(work) / path.name
        sources = [str(HERE / source) for source in variant.sources]
        limit_s = None if patient else BUILD_LIMIT_S
        command = [*compiler, *FLAGS, *variant.flags, "-o", str(fresh), *sources, "-lm", "-pthread"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        if done.returncode:
            raise OSError(f"{compiler[0]}: {done.stderr.strip()[-500:]}")
        fresh.chmod(0o755)  # by the umask of most users their group could write to it, and `built` would refuse it
        fresh.replace(path)


def main() -> int:
    """All variants of this architecture beside the sources. 1 if one could not be built, and on standard error why."""
    status, x86 = 0, platform.machine() in ("x86_64", "AMD64")
    for variant in (*VARIANTS, *FP32, *TRAINING) if x86 else [each for each in (*FP32, *TRAINING) if not each.needed]:
        try:
            compile_to(HERE / file_name(variant), variant, patient=True)
        except (OSError, subprocess.SubprocessError) as error:
            sys.stderr.write(f"{variant.name}: {error}\n")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
