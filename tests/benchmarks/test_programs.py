"""benchmarks/ has the programs that the documentation names, and no others."""

from __future__ import annotations

import re

from tests.readme import ROOT

NAMED_IN = ("docs", "CONTRIBUTING.md", "Makefile", "README.md")


def pages() -> str:
    files = [path for name in NAMED_IN for path in ((ROOT / name).rglob("*.md") if name == "docs" else [ROOT / name])]
    return "".join(path.read_text(encoding="utf-8") for path in files)


def test_named_programs_are_those_that_there_are() -> None:
    named = set(re.findall(r"-m benchmarks\.(\w+)", pages()))
    programs = {
        path for path in (ROOT / "benchmarks").glob("*.py") if '\nif __name__ == "__main__":' in path.read_text()
    }
    assert named == {path.stem for path in programs} - {"processes"}  # what contenders run in
