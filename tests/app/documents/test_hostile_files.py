"""Files that were made to cost much, or to break what reads them."""

from __future__ import annotations

import pytest

from app.documents import text_files
from app.errors import InvalidRequest

TIMES = "1\n00:00:01,000 --> 00:00:02,000\n"


@pytest.mark.parametrize("run", ["1" * 100_000, TIMES + " " * 100_000, TIMES + "a\r" + "\r" * 100_000])
def test_subtitles_with_long_runs_are_refused(run: str) -> None:
    with pytest.raises(InvalidRequest, match="20 digits or 100 white spaces in a row"):
        text_files.SubRip(run.encode())


@pytest.mark.parametrize(
    "label", ["hex", "rot13", "zlib", "undefined", "idna", "punycode", "unicode_escape", "klingon"]
)
def test_codecs_that_are_no_text_encodings_are_refused(label: str) -> None:
    with pytest.raises(InvalidRequest, match=f"The page's encoding '{label}' is not known here"):
        text_files.WebPage(f"<meta charset={label}>x".encode())
