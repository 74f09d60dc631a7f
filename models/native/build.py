"""The library, compiled by the system's own C compiler at its first use and kept in the user's cache folder."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

log = logging.getLogger(__name__)

HERE = Path(__file__).parent
SOURCES = ("products.c", "attention.c", "transformer.c")
# A fixed instruction set, not the machine's own: what one machine built runs on every one that `supported` accepts.
FLAGS = (
    *("-O3", "-march=cascadelake", "-fPIC", "-shared"),
    *("-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math"),
)
COMPILERS = ("cc", "gcc", "clang")
BUILD_LIMIT_S = 120


@cache
def library() -> ctypes.CDLL | None:
    """None, and in the log why, where this machine cannot have it: once a process."""
    if platform.machine().lower() not in ("x86_64", "amd64") or platform.system() != "Linux":
        log.info("int8 runs in PyTorch: the native kernels are for Linux on x86-64")
        return None
    try:
        loaded = ctypes.CDLL(str(built()))
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("int8 runs in PyTorch, slower: the native kernels cannot be had: %s", error)
        return None
    if not loaded.supported():
        log.info("int8 runs in PyTorch: this CPU lacks AVX-512 VNNI")
        return None
    log.info("int8 runs in native kernels")
    return loaded


def built() -> Path:
    """The library's file, built if it is not there yet. OSError or SubprocessError if it cannot be."""
    name = f"parlance-{fingerprint()}.so"
    shipped = HERE / name
    if shipped.exists():
        return shipped
    kept = folder() / name
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        compile_to(kept)
    return kept


def fingerprint() -> str:
    """Of the sources and the flags: another version of either is another file."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for source in ("native.h", *SOURCES):
        digest.update((HERE / source).read_bytes())
    return digest.hexdigest()[:16]


def folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "parlance"


def compile_to(path: Path) -> None:
    """Processes that build at the same time each write a file of their own; the last one to finish stays."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise FileNotFoundError(f"there is no C compiler ({', '.join(COMPILERS)})")
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        fresh = Path(work) / path.name
        command = [compiler, *FLAGS, "-o", str(fresh), *(str(HERE / source) for source in SOURCES), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False)
        if done.returncode:
            raise OSError(f"{compiler}: {done.stderr.strip()[-500:]}")
        fresh.replace(path)
