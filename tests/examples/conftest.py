"""Tiny translators, of equal depths and of others, and tools that record what they are called with."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests import tiny

TEXT, TARGET = "der hund schläft", "the dog sleeps"


@pytest.fixture(scope="session")
def translators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("translators")
    depths = {"equal": (2, 2), "deep encoder": (3, 1), "deep decoder": (1, 3)}
    return {name: tiny.write_translator(root / name, "de", "en", depths=depth) for name, depth in depths.items()}


class Calls(list[dict[str, Any]]):
    """Of one drawing function; the page of call n holds "drawn n"."""

    def __call__(self, **given: Any) -> SimpleNamespace:
        self.append(given)
        text = f"drawn {len(self)}"
        return SimpleNamespace(data=text, cdn_src=f"{text}, fetched", local_src=f"{text}, whole")


def stub(monkeypatch: pytest.MonkeyPatch, module: str, function: str) -> Calls:
    """A module of that name, for this test alone."""
    calls, parts = Calls(), module.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    setattr(sys.modules[module], function, calls)
    return calls
