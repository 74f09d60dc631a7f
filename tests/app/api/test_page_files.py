"""The files of the page: small, complete, and without what could run a user's text."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path, PurePosixPath
from typing import get_args

import pytest

from app.api.errors import HTTP_CODES
from app.api.inspection.schemas import STEP_REASONS
from app.api.web_pages import assets
from app.engine.interface import NoticeCode
from app.engine.registry.training_curves import CURVES
from app.errors import error_kinds
from models.inspection.word_alignment import CONVENTIONS
from models.networks.cells import CELLS, shown_names
from tests.app.api.client import described

ROOT = Path(__file__).parents[3]
TEXTS = {path: asset.body.decode() for path, asset in assets().items()}
MODULES = {path: text for path, text in TEXTS.items() if path.endswith(".js")}
MOST_BYTES = 250_000

# Ways from a text to markup, code or another origin.
FORBIDDEN = {
    "innerHTML": r"\.(?:inner|outer)HTML\b",
    "insertAdjacentHTML": r"insertAdjacentHTML|createContextualFragment|parseFromString|document\.write",
    "eval": r"\beval\s*\(|\bnew\s+Function\b|set(?:Timeout|Interval)\s*\(\s*[\"'`]",
    "inline script or style": r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=\"",
    "another origin": r"(?:https?|wss?)://(?!www\.w3\.org/2000/svg)",
    "import of a package": r"from\s+[\"'](?!\.)",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_page_code_never_inserts_markup_or_foreign_requests(what: str) -> None:
    result = {path: re.findall(FORBIDDEN[what], text) for path, text in TEXTS.items()}
    assert {path: hits for path, hits in result.items() if hits} == {}


def test_the_patterns_find_what_they_forbid() -> None:
    bad = {
        "innerHTML": "x.innerHTML = y",
        "insertAdjacentHTML": 'e.insertAdjacentHTML("beforeend", y)',
        "eval": "eval (x)",
        "inline script or style": "<script>alert(1)</script>",
        "another origin": 'import("https://example.org/x.js")',
        "import of a package": 'import { select } from "d3"',
    }
    assert all(re.search(FORBIDDEN[what], text) for what, text in bad.items())


def test_page_is_small() -> None:
    assert 50_000 < sum(len(asset.body) for asset in assets().values()) < MOST_BYTES


def test_modules_are_small() -> None:
    long = {path: text.count("\n") for path, text in MODULES.items() if "shell/" not in path and text.count("\n") > 140}
    assert long == {}


def test_imports_of_page_modules_are_exported() -> None:
    for path, text in MODULES.items():
        for names, target in re.findall(r"import \{([^}]+)\} from \"([^\"]+)\";", text):
            result = _beside(path, target)
            assert result in MODULES, f"{path} imports {target}"
            for name in names.split(","):
                exported = rf"export (?:async )?(?:function|const|class) {name.strip()}\b"
                assert re.search(exported, MODULES[result]), f"{path} imports {name.strip()} from {target}"


def test_every_module_is_reached_from_the_page() -> None:
    reached, waiting = set(), ["page.js"]
    while waiting:
        path = waiting.pop()
        reached.add(path)
        targets = re.findall(r"from \"([^\"]+)\";", MODULES[path])
        waiting += [result for target in targets if (result := _beside(path, target)) not in reached]
    assert reached == set(MODULES)


def test_both_languages_have_the_same_texts_with_the_same_gaps() -> None:
    english, chinese = (_texts(f"shell/{name}.js") for name in ("english", "chinese"))
    assert list(english) == list(chinese)
    assert len(english) > 100
    gaps = {key: (_gaps(english[key]), _gaps(chinese[key])) for key in english}
    assert {key: both for key, both in gaps.items() if both[0] != both[1]} == {}
    assert all(label.strip() for label in [*english.values(), *chinese.values()])


def test_texts_of_the_page_are_complete_and_used() -> None:
    known = set(_texts("shell/english.js"))
    code = "\n".join(text for path, text in MODULES.items() if path not in ("shell/english.js", "shell/chinese.js"))
    named = set(re.findall(r"\"((?:[a-z]+\.)?[a-zA-Z. ]+)\"", code)) & known
    called = set(re.findall(r"\bt\(\"([^\"]+)\"", code))
    assert called <= known
    starts = tuple(re.findall(r"\bt\(`([a-z]+\.)\$\{", code))
    assert {key for key in known - named if not key.startswith(starts)} == set()


def test_chinese_has_every_word_of_the_api_that_the_page_shows() -> None:
    kinds = dict(re.findall(r"^  (\w+): \{(.*?)\},?$", TEXTS["shell/chinese_api.js"], re.M | re.S))
    names = {kind: set(re.findall(r"\b([\w -]+?)[\"]?: \"", text)) for kind, text in kinds.items()}
    assert described()  # all errors of the app are imported
    codes = {kind.code for kind in error_kinds() if kind.__module__.startswith("app.")} - {"engine_error"}
    codes |= set(HTTP_CODES.values()) | {"internal_error", "http_error"}
    lacking = sorted(codes - names["errors"])
    assert not lacking, f"app/web/shell/chinese_api.js needs a line for each of these errors: {lacking}"
    assert names["steps"] == names["reasons"] == set(STEP_REASONS)
    assert names["cells"] == set(CELLS)
    assert names["curves"] == set(CURVES)
    assert names["units"] == {unit for _, unit in CURVES.values() if unit}
    assert names["conventions"] == set(CONVENTIONS)
    texts = _texts("shell/english.js")
    assert {f"gate.{gate}" for gate in shown_names()} <= set(texts)
    assert {f"notice.{code}" for code in get_args(NoticeCode)} <= set(texts)


def test_package_contains_the_page_files() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["app"]
    for path in TEXTS:
        result = PurePosixPath("web", path)
        assert any(result.match(pattern) and len(result.parts) == pattern.count("/") + 1 for pattern in patterns), path


def _beside(path: str, target: str) -> str:
    parts: list[str] = []
    for part in (PurePosixPath(path).parent / target).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _texts(path: str) -> dict[str, str]:
    return {
        plain or quoted: text
        for plain, quoted, text in re.findall(r"^  (?:(\w+)|\"([^\"]+)\"): \"(.*)\",$", TEXTS[path], re.M)
    }


def _gaps(text: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)\}", text))
