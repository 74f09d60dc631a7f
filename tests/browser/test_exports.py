"""The files that leave the page hold what it shows."""

from __future__ import annotations

import csv
import io
import json
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.browser.chromium import Watched
from tests.serving import Server

pytestmark = pytest.mark.browser

TEXT = "guten morgen welt"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def page(watched: Watched) -> Any:
    opened = watched.goto(f"#translate?pair=de.en&text={TEXT.replace(' ', '+')}&layer=1&head=0")
    opened.wait_for_selector(".token")
    return opened


def downloaded(page: Any, kind: str) -> Path:
    with page.expect_download() as download:
        page.click(f"[data-export={kind}]")
    assert download.value.suggested_filename == f"attention.{kind}"
    return Path(download.value.path())


def weights(served: Server) -> list[list[float]]:
    body = {"source": TEXT, "model": "tiny-de-en", "kinds": ["cross"], "layers": [1], "heads": [0]}
    result: list[list[float]] = served.ask("/attention", body)["attention"]["cross"]["weights"][0][0]
    return result


def test_csv_has_names_and_numbers(page: Any, served: Server) -> None:
    rows = list(csv.reader(io.StringIO(downloaded(page, "csv").read_text(encoding="utf-8-sig"))))
    assert rows[0] == ["", "guten", "morgen", "welt", "</s>"]
    numbers = [[float(cell) for cell in row[1:]] for row in rows[1:]]
    for result, expected in zip(numbers, weights(served), strict=True):
        assert result == pytest.approx(expected, abs=2e-5)


def test_json_export_is_the_api_answer(page: Any) -> None:
    answer = json.loads(downloaded(page, "json").read_text())
    assert answer["source"]["text"] == TEXT
    assert [token["text"] for token in answer["source"]["tokens"]] == ["guten", "morgen", "welt", ""]
    assert set(answer["attention"]) == {"cross", "encoder", "decoder"}


def test_svg_has_one_cell_per_weight(page: Any, served: Server) -> None:
    drawing = ElementTree.fromstring(downloaded(page, "svg").read_text())
    expected = weights(served)
    titles = [title.text or "" for title in drawing.iter(f"{SVG}title")]
    assert len(titles) == len(expected) * 4
    shown = [float(title.rsplit(": ", 1)[1]) for title in titles]
    assert shown == pytest.approx([weight for row in expected for weight in row], abs=1e-4)


def test_png_uses_cividis(page: Any) -> None:
    content = downloaded(page, "png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    assert width >= 720
    assert height >= 200
    assert len(content) > 5000


def test_spreadsheet_formulas_are_escaped(watched: Watched) -> None:
    page = watched.translated("=1+1 der")
    assert "'=1" in downloaded(page, "csv").read_text(encoding="utf-8-sig") or "<unk>" in downloaded(
        page, "csv"
    ).read_text(encoding="utf-8-sig")
