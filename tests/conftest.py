from __future__ import annotations

import contextlib
import gc
import re
import subprocess
from collections.abc import Generator
from pathlib import Path
from unittest import mock

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

from models.backends.native import build
from models.backends.native.build import EVERY
from models.backends.native.cpu import cpu_flags
from tests.combinations import mark_others_slow

# what test modules share asserts too, and its failures show their values only so
pytest.register_assert_rewrite("tests.app", "tests.faults", "tests.models", "tests.training", "tests.serving")

# Other examples in each run. How long one takes says how busy the machine is.
hypothesis.settings.register_profile("parlance", deadline=None, max_examples=40)
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
    "replicas": "ray",
}
ALL_MARKED = re.compile(r"^pytestmark = pytest\.mark\.(\w+)\b(?!\()", re.MULTILINE)


def pytest_configure(config: pytest.Config) -> None:
    """Builds the kernels before the tests: on a busy machine the compiler may take longer than a server waits for it.
    If they cannot be built, the tests that need them report it."""
    if hasattr(config, "workerinput"):
        return
    with mock.patch.object(build, "BUILD_LIMIT_S", 300):
        flags = cpu_flags()
        for variant in (kernel for kernel in EVERY if kernel.needed <= flags):
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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Worker processes of xdist report each call, and of setups and teardowns only those that failed or took time: to
    send a report, and to read it, costs more than a test of a millisecond."""
    if not hasattr(item.config, "workerinput"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration > 0.5:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_others_slow(items)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out folders and files whose tests all have a marker that is not wanted: importing them takes seconds."""
    wanted = config.getoption("markexpr")
    marker = FOLDER_MARKERS.get(collection_path.name) if collection_path.parent == TESTS else None
    if collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        marked = ALL_MARKED.search(collection_path.read_text(encoding="utf-8"))
        marker = marked[1] if marked else None
    return True if marker and f"not {marker}" in wanted else None


@pytest.fixture(scope="session")
def tiny_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tiny translators (de-en, en-es) and a tiny lyricist; do not write to it."""
    from tests import tiny  # here, because it needs PyTorch, and the process that hands out the tests does not

    return tiny.write_all(tmp_path_factory.mktemp("checkpoints"))
