from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Watched, browser, executable
from tests.serving import Server, serving


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if executable() is None:
        pytest.fail("these tests are of the page in a browser, and there is none here: apt-get install chromium")
    with browser() as launched:
        yield launched


@pytest.fixture(scope="session")
def served(tiny_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tiny_checkpoints, tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def watched(chromium: Any, served: Server) -> Iterator[Watched]:
    """A fresh page; at its end the console has said nothing wrong and no request has left."""
    with Watched.opened(chromium, served.base, viewport={"width": 1200, "height": 1000}) as page:
        yield page
        page.clean()


@pytest.fixture(scope="session")
def described(served: Server) -> dict[str, Any]:
    """The API's own description: what this version answers decides what the page can show."""
    result: dict[str, Any] = served.ask("/openapi.json")
    return result
