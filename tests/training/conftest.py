"""Tiny networks run fastest on one thread, and their numbers then depend on no machine."""

from collections.abc import Iterator

import pytest
import torch

from training import output


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than training a tiny network; `test_report` looks at the picture."""
    monkeypatch.setattr(output, "draw_curves", lambda metrics, path: path.write_bytes(b"no picture"))
