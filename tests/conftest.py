from __future__ import annotations

import contextlib
import gc
import subprocess
from collections.abc import Generator
from pathlib import Path
from unittest import mock

import hypothesis
import pytest

from models.backends.native import build
from models.backends.native.build import FP32, VARIANTS
from models.backends.native.cpu import cpu_flags
from training.kernels.training_backend import TRAINING

# what test modules share asserts too, and its failures show their values only so
pytest.register_assert_rewrite("tests.app", "tests.faults", "tests.models", "tests.training", "tests.serving")

from tests import tiny  # noqa: E402

# how long an example takes says how busy the machine is
hypothesis.settings.register_profile("parlance", deadline=None)
hypothesis.settings.load_profile("parlance")

TESTS = Path(__file__).parent
FOLDER_MARKERS = {
    "arm": "cross",
    "benchmarks": "bench",
    "browser": "browser",
    "clients": "clients",
    "faults": "faults",
    "fuzz": "fuzz",
    "gpu": "gpu",
}


def pytest_configure(config: pytest.Config) -> None:
    """Builds the kernels before the tests: on a busy machine the compiler may take longer than a server waits for it.
    If they cannot be built, the tests that need them report it."""
    if hasattr(config, "workerinput"):
        return
    with mock.patch.object(build, "BUILD_LIMIT_S", 300):
        flags = cpu_flags()
        for variant in (kernel for kernel in (*VARIANTS, *FP32, *TRAINING) if kernel.needed <= flags):
            with contextlib.suppress(OSError, RuntimeError, subprocess.SubprocessError):
                build.built(variant)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays until the end, and every full garbage collection would look at all of it:
    a second, in whatever test it falls."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _old_objects_stay() -> None:
    """Full garbage collections look at what this test module has made, and not at the libraries that earlier ones have
    imported: that took a seventh of the processor time of all tests."""
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out folders whose tests all have a marker that is not wanted: importing them takes seconds."""
    wanted = config.getoption("markexpr")
    marker = FOLDER_MARKERS.get(collection_path.name) if collection_path.parent == TESTS else None
    return True if marker and f"not {marker}" in wanted else None


@pytest.fixture(scope="session")
def tiny_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tiny translators (de-en, en-es) and a tiny lyricist; do not write to it."""
    return tiny.write_all(tmp_path_factory.mktemp("checkpoints"))
