"""Batches made ahead by a thread: the same run to the bit, its errors in the loop, and its end with the loop's."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.training.counting import Counting, looping
from tests.training.runs import Killed, assert_same_run, kill_at, translate
from tests.training.small import CPU
from training.distributed.watchdog import Stopped
from training.loop import trainer as loops
from training.loop.prefetch import BatchPrefetcher
from training.loop.trainer import Trainer

pytestmark = pytest.mark.usefixtures("no_curves")


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "batches"]


class Making(Sequence[int]):
    """Batches 0, 1, ...; notes which of them were made, and by which thread."""

    def __init__(self, size: int, fails_at: int | None = None) -> None:
        self.size, self.fails_at = size, fails_at
        self.made, self.threads = list[int](), set[str]()
        self.progressed = threading.Event()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        if index == self.fails_at:
            raise ValueError(f"batch {index} is broken")
        self.made.append(index)
        self.threads.add(threading.current_thread().name)
        self.progressed.set()
        return index


def made_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop makes batches ahead as it does for a GPU."""
    original = Trainer.__init__

    def prefetching(self: Trainer, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        self.batches_ahead = loops.BATCHES_AHEAD

    monkeypatch.setattr(Trainer, "__init__", prefetching)


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_batches_come_in_order_from_any_beginning(ahead: int) -> None:
    making = Making(11)
    with BatchPrefetcher(making, 4, ahead, CPU) as upcoming:
        assert [upcoming.take(3) for _ in range(4)] == [[4, 5, 6], [7, 8, 9], [10], []]
    assert making.made == list(range(4, 11))
    assert making.threads == {"batches" if ahead else threading.current_thread().name}
    assert upcoming.made == 7


def test_no_more_batches_wait_than_allowed() -> None:
    making = Making(100)
    with BatchPrefetcher(making, 0, 3, CPU) as upcoming:
        upcoming.take(1)
        for _ in range(200):
            making.progressed.wait(0.001)
        assert len(making.made) <= 1 + 3 + 1  # one taken, three waiting, one that may have been begun
    assert len(making.made) <= 5


def test_an_error_is_raised_in_the_loop_with_its_traceback() -> None:
    with BatchPrefetcher(Making(9, fails_at=2), 0, 4, CPU) as upcoming:
        assert upcoming.take(2) == [0, 1]
        with pytest.raises(ValueError, match=r"^batch 2 is broken$") as raised:
            upcoming.take(1)
    assert "__getitem__" in [frame.name for frame in traceback.extract_tb(raised.tb)]


def test_an_error_of_the_thread_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made_ahead(monkeypatch)
    task = Counting(batches=9)
    task.batches = lambda epoch: Making(9, fails_at=5)  # type: ignore[method-assign,assignment,return-value]
    loop = looping(task, max_epochs=1)
    with pytest.raises(ValueError, match=r"^batch 5 is broken$"):
        loop.run()
    assert loop.progress.update == 5


def test_thread_ends_with_a_stopped_loop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made_ahead(monkeypatch)
    loop = looping(Counting(batches=500), tmp_path, max_epochs=3)
    task: Any = loop.task
    task.after_loss = lambda: setattr(loop.signals, "requested", 2 if loop.progress.update == 7 else 0)
    with pytest.raises(Stopped):
        loop.run()
    assert loop.progress.update == 8


@pytest.mark.slow
def test_a_run_with_batches_made_ahead_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was killed with batches made that no update had read."""
    small: Any = {"tokens_per_batch": 60}
    translate(tmp_path / "plain", **small)
    made_ahead(monkeypatch)
    translate(tmp_path / "ahead", **small)
    assert_same_run(tmp_path / "plain", tmp_path / "ahead")
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 4)
        with pytest.raises(Killed):
            translate(tmp_path / "killed", **small)
    translate(tmp_path / "killed", resume=True, **small)
    assert_same_run(tmp_path / "plain", tmp_path / "killed")
