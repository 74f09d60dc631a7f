"""What CircuitsVis is called with."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from examples import circuitsvis_view
from examples.sentence import look
from tests.examples.conftest import TARGET, TEXT, stub

SOURCE, INPUTS = [*TEXT.split(), "‹/s›"], ["‹s›", *TARGET.split()]


@pytest.mark.every_value
@pytest.mark.parametrize("name", ["equal", "deep encoder", "deep decoder"])
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_every_layer_is_drawn(
    kind: str, name: str, translators: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = stub(monkeypatch, "circuitsvis.attention", "attention_heads")
    out = tmp_path / "page.html"
    circuitsvis_view.main([str(translators[name]), TEXT, "--target", TARGET, "--kind", kind, "--out", str(out)])
    maps = look(translators[name], TEXT, TARGET).maps[kind]
    tokens = {"encoder": SOURCE, "decoder": INPUTS, "cross": SOURCE + INPUTS}[kind]
    page = out.read_text(encoding="utf-8")
    assert len(calls) == len(maps)
    for number, (call, weights) in enumerate(zip(calls, maps, strict=True), start=1):
        shown = call["attention"][:, len(SOURCE) :, : len(SOURCE)] if kind == "cross" else call["attention"]
        assert torch.equal(shown, weights)
        assert call["tokens"] == tokens
        assert call["mask_upper_tri"] is (kind == "decoder")
        assert page.count(f"drawn {number}, fetched") == 1


def test_a_page_with_all_that_it_needs(
    translators: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub(monkeypatch, "circuitsvis.attention", "attention_heads")
    out = tmp_path / "page.html"
    circuitsvis_view.main([str(translators["equal"]), TEXT, "--offline", "--out", str(out)])
    page = out.read_text(encoding="utf-8")
    assert "drawn 1, whole" in page
    assert "fetched" not in page
