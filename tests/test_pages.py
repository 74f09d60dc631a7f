"""Links of the documentation exist, and both languages of the README agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.readme import BLOCK, ROOT

PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """As GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_the_documentation_exists(page: Path) -> None:
    for link in LINK.findall(BLOCK.sub("", text_of(page))):
        if re.match(r"https?:|mailto:", link):
            continue
        name, _, anchor = link.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(there), f"{page.name} links to {link}"


def test_both_readmes_have_the_same_commands_answers_links_and_sections() -> None:
    english, chinese = (text_of(ROOT / name) for name in ("README.md", "README.zh-CN.md"))
    assert BLOCK.findall(english) == BLOCK.findall(chinese)
    found = [[link for link in LINK.findall(each) if "README" not in link] for each in (english, chinese)]
    links = [["#" if link.startswith("#") else link for link in each] for each in found]  # headings are translated
    assert sorted(links[0]) == sorted(links[1])
    levels = [re.findall(r"^#+", BLOCK.sub("", each), re.MULTILINE) for each in (english, chinese)]
    assert levels[0] == levels[1]


def test_readme_is_short() -> None:
    assert len(text_of(ROOT / "README.md").splitlines()) <= 140
