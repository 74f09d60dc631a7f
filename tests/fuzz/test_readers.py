"""Made-up documents and pages for every reader: each is read and written again, or refused with a sentence."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from app.documents.reader_process import READERS
from app.errors import InvalidRequest
from app.text.html_page import page_sections, parse_page
from tests.app.documents import sample_documents
from tests.app.documents.sample_documents import repacked
from tests.fuzz.examples import REPEATS, SEED, fuzzed
from tests.time_limits import processor_seconds

pytestmark = pytest.mark.fuzz
word_document, open_document = cache(sample_documents.word_document), cache(sample_documents.open_document)
PIECES = {
    ".html": (
        "<b>",
        "</b>",
        "<p>",
        "</p>",
        "<code>",
        "</code>",
        "<!--",
        "-->",
        "<pre>",
        "<svg/>",
        "<br",
        ">",
        "&amp;",
        "<title>",
        "<script>",
        "</script>",
        " translate=no",
        "\xa0",
        "{1}",
        "wort",
        " ",
        "\n",
        "\0",
        "ä",
        "</",
    ),
    ".srt": (
        "1\n",
        "00:00:01,000 --> 00:00:02,000",
        "\n",
        "\r\n",
        "-->",
        "<i>",
        "</i>",
        "- ",
        "text",
        " ",
        "9" * 30,
        "<",
    ),
    ".vtt": (
        "WEBVTT",
        "\n",
        "\n\n",
        "00:01.000 --> 00:02.000",
        "NOTE ",
        "<v A>",
        "<00:01.000>",
        "Language: de",
        "a",
        " ",
    ),
    ".md": (
        "```",
        "\n",
        "---",
        "*",
        "_",
        "[a](b)",
        "# ",
        "| a |",
        "Subject: ",
        "From: a\n",
        "wort",
        " ",
        "~~",
        "\t",
        ". ",
    ),
    ".docx": (
        "<w:p>",
        "</w:p>",
        "<w:r>",
        "</w:r>",
        "<w:t>wort</w:t>",
        "<w:tab/>",
        "<w:rPr><w:b/></w:rPr>",
        "<w:hyperlink>",
        "</w:hyperlink>",
        "<w:ins>",
        "</w:ins>",
        "<w:noBreakHyphen/>",
        "<w:del/>",
        "&amp;",
        " ",
        "<!-- a -->",
    ),
    ".odt": (
        "<text:p>",
        "</text:p>",
        "<text:span>",
        "</text:span>",
        "wort",
        "<text:s text:c='9'/>",
        "<text:tab/>",
        "<text:note/>",
        "<text:h>",
        "</text:h>",
        "&lt;",
        " ",
        "<!-- a -->",
    ),
}


def _file(extension: str, content: str) -> bytes:
    if extension == ".docx":
        space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
        xml = f"<w:document {space}><w:body>{content}</w:body></w:document>".encode()
        return repacked(word_document(), lambda name, data: xml if name == "word/document.xml" else data)
    if extension == ".odt":
        return repacked(
            open_document(),
            lambda name, data: (
                data.replace(b"</office:text>", content.encode() + b"</office:text>") if name == "content.xml" else data
            ),
        )
    return content.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("extension", PIECES)
def test_made_up_files_are_written_again_or_refused(extension: str) -> None:
    pieces = st.lists(st.sampled_from(PIECES[extension]) | st.text(max_size=5), max_size=40).map("".join)

    @seed(SEED)
    @fuzzed
    @given(pieces, REPEATS)
    def read(content: str, times: int) -> None:
        with processor_seconds(20):
            try:
                file = _file(extension, content * times)
                document = READERS[extension](file)
                document.written(document.texts, "en")
            except InvalidRequest as refusal:
                assert str(refusal).endswith(".")

    read()


@pytest.mark.parametrize("extension", READERS)
def test_changed_bytes_are_written_again_or_refused(extension: str) -> None:
    whole = {".docx": word_document, ".odt": open_document}.get(extension, lambda: b"WEBVTT\n\n1\n00:00:01.000 --> a")()

    @seed(SEED)
    @fuzzed
    @given(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=8))
    def read(changes: list[tuple[int, int]]) -> None:
        content = bytearray(whole)
        for place, byte in changes:
            content[place] = byte
        with processor_seconds(20):
            try:
                document = READERS[extension](bytes(content))
                document.written(document.texts, "en")
            except InvalidRequest as refusal:
                assert str(refusal).endswith(".")

    read()


@seed(SEED)
@fuzzed
@given(st.lists(st.sampled_from(PIECES[".html"]), max_size=60).map("".join), st.integers(1, 300))
def test_sections_of_a_page_are_the_page(page: str, characters: int) -> None:
    sections = list(page_sections(page, characters))
    assert "".join(sections) == page
    assert [text for section in sections for text in parse_page(section).texts] == parse_page(page).texts
