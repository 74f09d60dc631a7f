"""One thread for these tests: the tensors are tiny, and threads would wait for one another on a shared machine."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest
import torch

from models.backends.native import build
from tests.models.kernels import TESTED, variant_library


@pytest.fixture(scope="package", autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=["native", "pytorch"])
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    """Recurrent steps and draws in C, and as they are where there is no compiler."""
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "pytorch":
            patched.setattr(build, "fp32_library", lambda: None)
        yield


@pytest.fixture(params=TESTED)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """The native kernels: each variant that this CPU can run. A network in int8 that is made meanwhile has them."""
    result = variant_library(request.param)
    monkeypatch.setattr(build, "library", lambda: result)
    return result
