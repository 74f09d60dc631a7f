"""The library, compiled by the system's own C compiler at its first use and kept in the user's cache folder.

`python -m models.native.build` puts it beside its sources instead, for an image that is to have no compiler. CC, as
elsewhere, is the command that compiles."""

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
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

log = logging.getLogger(__name__)

HERE = Path(__file__).parent
SOURCES = ("products.c", "attention.c", "likeliest.c", "copying.c", "transformer.c")
FP32_SOURCES = ("matrices.c", "recurrent.c", "draws.c")
# A fixed instruction set, not the machine's own: what one machine built runs on every one with NEEDED.
NEEDED = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "fma", "bmi2", "adx"}
FLAGS = (
    *("-O3", "-fPIC", "-shared"),
    *("-fopenmp-simd", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
)
COMPILERS = ("cc", "gcc", "clang")
BUILD_LIMIT_S = 30  # less than a device process has to start: a compiler that hangs is one that is not there


class Kit(NamedTuple):
    """What is compiled into one library, and for which instructions."""

    name: str
    sources: tuple[str, ...]
    headers: tuple[str, ...]
    flags: tuple[str, ...]


INT8 = Kit("int8", SOURCES, ("native.h",), ("-march=cascadelake",))
INSTRUCTIONS = (("avx512f", "avx512dq", "fma"), ("avx2", "fma"), ())
"""The widest first; () is what every machine of an architecture has."""
FP32 = {
    needed: Kit("fp32", FP32_SOURCES, ("vectors.h", "recurrent.h"), tuple(f"-m{name}" for name in needed))
    for needed in INSTRUCTIONS
}


@cache
def library() -> ctypes.CDLL | None:
    """None, and in the log why, where this machine cannot have it: once a process."""
    missing = NEEDED - cpu_flags()
    if missing:
        log.info("int8 runs in PyTorch: native kernels need a CPU under Linux with %s", ", ".join(sorted(missing)))
        return None
    return loaded(INT8)


@cache
def fp32_library() -> ctypes.CDLL | None:
    """For recurrent networks, and for draws of any. None, and in the log why, where there is no compiler for it."""
    flags = cpu_flags()
    return loaded(next(kit for needed, kit in FP32.items() if flags.issuperset(needed)))


def loaded(kit: Kit) -> ctypes.CDLL | None:
    try:
        found = ctypes.CDLL(str(built(kit)))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # RuntimeError: nobody's home
        log.warning("%s runs in PyTorch, slower, for its native kernels cannot be had: %s", kit.name, error)
        return None
    log.info("%s runs in native kernels", kit.name)
    return found


def cpu_flags(path: Path = Path("/proc/cpuinfo")) -> set[str]:
    """What this CPU can do and its system lets it; nothing where Linux does not tell."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    return set(next((line.split(":")[1] for line in text.splitlines() if line.startswith("flags")), "").split())


def built(kit: Kit = INT8) -> Path:
    """The library's file, built if it is not there yet. OSError or SubprocessError if it cannot be."""
    shipped = HERE / file_name(kit)
    if shipped.exists():
        return shipped
    kept = folder() / file_name(kit)
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_others(kept.parent)
    if not kept.exists():
        compile_to(kept, kit)
    refuse_others(kept)
    return kept


def refuse_others(path: Path) -> None:
    """OSError if somebody else could have put it there: what is loaded runs."""
    status = path.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{path} is not this user's alone to write to")


def file_name(kit: Kit = INT8) -> str:
    return f"parlance-{fingerprint(kit)}.so"


def fingerprint(kit: Kit = INT8) -> str:
    """Of the sources and the flags: another version of either is another file."""
    digest = hashlib.sha256(" ".join((*FLAGS, *kit.flags)).encode())
    for source in (*kit.headers, *kit.sources):
        digest.update((HERE / source).read_bytes())
    return digest.hexdigest()[:16]


def folder() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "parlance"


def compile_to(path: Path, kit: Kit = INT8) -> None:
    """Processes that build at the same time each write a file of their own; the last one to finish stays."""
    found = next(filter(None, map(shutil.which, COMPILERS)), None)
    compiler = shlex.split(os.environ.get("CC", "")) or ([found] if found else [])
    if not compiler:
        raise FileNotFoundError(f"there is no C compiler ({', '.join(COMPILERS)})")
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        fresh = Path(work) / path.name
        command = [*compiler, *FLAGS, *kit.flags, "-o", str(fresh), *(str(HERE / each) for each in kit.sources), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False)
        if done.returncode:
            raise OSError(f"{compiler[0]}: {done.stderr.strip()[-500:]}")
        fresh.replace(path)


if __name__ == "__main__":
    for each in (INT8, *FP32.values()) if platform.machine() in ("x86_64", "AMD64") else (FP32[()],):
        compile_to(HERE / file_name(each), each)
