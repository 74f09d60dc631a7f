"""The tests of the C kernels over libraries with GCC's sanitizers of addresses and of undefined behaviour: the first
read or write beyond an array, and the first overflow of an integer, ends the run with its place in the source.

`python -m tests.sanitizers [ARGUMENT ...]`, with further arguments for pytest. The libraries are compiled into a
temporary folder and never into the user's cache, where servers would find them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from models.backends.native import build
from models.backends.native.build import EVERY, Variant, cpu_flags
from tests.combinations import ALL_VALUES

TESTS = ("tests/models/backends/native", "tests/training/kernels")
# They say what happens without a compiler, with another, or to a cache; each compiles or loads no kernel, or its own.
LEFT_OUT = ("test_build.py", "test_build_cache.py")
COMPILER = "gcc -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g"
REPORT = "report"  # pytest keeps what a test writes, and is gone with the process: reports are files
READ_BEYOND = "float beyond(const float *values, long count) { return values[count]; }\n"
CALL_BEYOND = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
memory = ctypes.CDLL(None)
memory.malloc.restype = ctypes.c_void_p
library.beyond(ctypes.c_void_p(memory.malloc(ctypes.c_size_t(40))), ctypes.c_long(10))
"""


def sanitizer_environment(folder: Path) -> dict[str, str]:
    """The environment of a Python whose kernels are sanitized. folder: for their libraries. The sanitizers replace the
    allocator, so the process has to begin with them: Python itself is linked with neither."""
    libraries = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PARLANCE_")},
        "ASAN_OPTIONS": f"detect_leaks=0:log_path={folder / REPORT}",  # Python leaves its own memory to the system
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={folder / REPORT}",
        "CC": COMPILER,
        "LD_PRELOAD": " ".join(libraries),
        "XDG_CACHE_HOME": str(folder),
    }


def compile_kernels(folder: Path) -> list[Path]:
    """This CPU's libraries, compiled with sanitizers into the folder. RuntimeError where others would be loaded."""
    variants = [variant for variant in EVERY if variant.needed <= cpu_flags()]
    shipped = [variant.folder / build.file_name(variant) for variant in variants]
    if found := next((path for path in shipped if path.exists()), None):
        raise RuntimeError(f"{found} would be loaded instead of a sanitized library: remove it")
    kept = folder / "parlance"
    kept.mkdir(mode=0o700)
    os.environ["CC"] = COMPILER

    def compiled(variant: Variant) -> Path:
        path = kept / build.file_name(variant)
        build.compile_to(path, variant, patient=True)
        return path

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(compiled, variants))


def take_reports(folder: Path) -> str:
    """What the sanitizers have said, which is then forgotten."""
    text = ""
    for path in sorted(folder.glob(f"{REPORT}.*")):
        text += path.read_text(encoding="utf-8", errors="replace")
        path.unlink()
    return text


def check_sanitizers(folder: Path, environment: Mapping[str, str]) -> None:
    """RuntimeError unless a read beyond an array ends a process."""
    source, library = folder / "beyond.c", folder / "beyond.so"
    source.write_text(READ_BEYOND, encoding="utf-8")
    subprocess.run([*COMPILER.split(), "-fPIC", "-shared", "-o", str(library), str(source)], check=True)
    command = [sys.executable, "-c", CALL_BEYOND, str(library)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said = take_reports(folder)
    if not done.returncode or "heap-buffer-overflow" not in said:
        raise RuntimeError(f"the sanitizers do not see a read beyond an array: {said or done.stderr[-500:]}")


def main(arguments: list[str]) -> int:
    if shutil.which("gcc") is None:
        sys.stderr.write("The sanitizers need GCC (Debian's package gcc).\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="parlance-sanitizers-") as place:
        folder = Path(place)
        libraries = compile_kernels(folder)
        environment = sanitizer_environment(folder)
        check_sanitizers(folder, environment)
        command = [sys.executable, "-m", "pytest", "-p", "no:schemathesis", "-p", "no:cacheprovider", "-m", ALL_VALUES]
        left_out = [f"--ignore=tests/models/backends/native/{name}" for name in LEFT_OUT]
        status = subprocess.run([*command, *left_out, *TESTS, *arguments], env=environment, check=False).returncode
        sys.stderr.write(take_reports(folder))
        strange = {*(folder / "parlance").glob("*.so")} - {*libraries}
        if strange:  # a test would have run over a library that was compiled in another way
            sys.stderr.write(f"Libraries that the run itself compiled: {sorted(map(str, strange))}\n")
        return status or bool(strange)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
