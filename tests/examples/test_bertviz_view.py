"""What bertviz is called with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from examples import bertviz_view
from examples.sentence import look
from tests.examples.conftest import TARGET, TEXT, stub

SOURCE, INPUTS, OUTPUTS = [*TEXT.split(), "‹/s›"], ["‹s›", *TARGET.split()], [*TARGET.split(), "‹/s›"]
KINDS = ("encoder", "decoder", "cross")
NAMES = {"equal": [("encoder", "decoder"), ("cross",)]}


def kinds(call: dict[str, Any]) -> tuple[str, ...]:
    return tuple(kind for kind in KINDS if f"{kind}_attention" in call)


@pytest.mark.parametrize("name", ["equal", "deep encoder", "deep decoder"])
def test_every_map_is_drawn_once_with_its_own_tokens(
    name: str, translators: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = stub(monkeypatch, "bertviz", "head_view")
    out = tmp_path / "page.html"
    bertviz_view.main([str(translators[name]), TEXT, "--target", TARGET, "--out", str(out)])
    assert [kinds(call) for call in calls] == NAMES.get(name, [("encoder",), ("decoder",), ("cross",)])
    maps = look(translators[name], TEXT, TARGET).maps
    for call in calls:
        assert call["html_action"] == "return"
        assert call.get("encoder_tokens", SOURCE) == SOURCE
        assert call.get("decoder_tokens", INPUTS) == (OUTPUTS if kinds(call) == ("cross",) else INPUTS)
        for kind in kinds(call):
            for passed, weights in zip(call[f"{kind}_attention"], maps[kind], strict=True):
                assert torch.equal(passed[0], weights)
    page = out.read_text(encoding="utf-8")
    assert all(page.count(f"drawn {number}") == 1 for number in range(1, len(calls) + 1))


def test_the_other_view(translators: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stub(monkeypatch, "bertviz", "model_view")
    bertviz_view.main([str(translators["equal"]), TEXT, "--view", "model", "--out", str(tmp_path / "page.html")])
    assert len(calls) == 2
