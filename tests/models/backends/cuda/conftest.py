from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.models.backends.cuda.interpreter import Interpreter


@pytest.fixture(scope="session")
def interpreter() -> Iterator[Interpreter]:
    pytest.importorskip("triton", reason="Triton is for Linux on x86-64")
    made = Interpreter()
    yield made
    made.close()
