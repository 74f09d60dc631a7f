"""Plain text, subtitles and web pages; invalid files of these formats."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import documents
from app.errors import InvalidRequest
from app.text.text_blocks import untranslatable_blocks
from tests.app.documents.sample_documents import Backwards, through


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_plain_text_keeps_its_encoding(encoding: str) -> None:
    content, ask = through(".txt", "Grün\r\n\r\n  und 😀\n".encode(encoding))
    assert content == "GRÜN\r\n\r\n  UND 😀\n".encode(encoding)
    assert (ask.texts_seen, ask.format) == (["Grün\r\n\r\n  und 😀\n"], "text")


@pytest.mark.parametrize("extension", [".txt", ".html", ".srt"])
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b" \n"])
def test_file_without_text_is_returned_untranslated(extension: str, content: bytes) -> None:
    written, ask = through(extension, content)
    assert (written, ask.format) == (content, None)


def test_text_in_another_encoding_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="neither in UTF-8 nor in UTF-16"):
        through(".txt", "grün".encode("latin-1"))


@pytest.mark.parametrize("extension", [".txt", ".md", ".html", ".srt"])
def test_utf_16_without_its_mark_is_refused(extension: str) -> None:
    """Its letters and the zeros between them became a text of other characters."""
    with pytest.raises(InvalidRequest, match="The file holds NUL characters"):
        through(extension, "hallo welt".encode("utf-16-le"))


SUBTITLES = """\
1
00:00:01,000 --> 00:00:02,500 X1:5
Hello there <i>my dear
old friend</i> & you

7
00:00:03,000 --> 00:00:04,000
- Yes indeed
- No
never
"""


def test_subtitles_keep_numbers_times_and_lines() -> None:
    content, ask = through(".srt", b"\xef\xbb\xbf" + SUBTITLES.replace("\n", "\r\n").encode())
    assert ask.texts_seen == ["Hello there <i>my dear old friend</i> &amp; you", "- Yes indeed", "- No never"]
    assert content.decode("utf-8-sig").split("\r\n") == [
        "1",
        "00:00:01,000 --> 00:00:02,500 X1:5",
        "YOU & <i>FRIEND OLD",
        "DEAR MY</i> THERE HELLO",
        "",
        "7",
        "00:00:03,000 --> 00:00:04,000",
        "INDEED YES -",
        "NEVER",
        "NO -",
        "",
    ]
    assert content.startswith(b"\xef\xbb\xbf")


WEBVTT = """\
WEBVTT - a title
Kind: captions
Language: de-DE

NOTE a comment
00:00 --> is none

STYLE
::cue { color: red }

intro
00:01.000 --> 00:00:04.000 align:start
<v Anna>Hello <00:02.000>there <i>my dear
old friend</i> &amp; you</v>

01:00:05.000 --> 01:00:06.000
- Yes indeed
- No

00:07.000 --> 00:08.000
"""


def test_captions_keep_names_settings_comments_and_references() -> None:
    ask = Backwards()
    content = asyncio.run(documents.translated(".vtt", WEBVTT.encode(), ask, lambda: "en"))
    assert ask.texts_seen == [
        "<v Anna>Hello there <i>my dear old friend</i> &amp; you</v>",
        "- Yes indeed",
        "- No",
    ]
    changes = {
        "Language: de-DE": "Language: en",
        "<v Anna>Hello <00:02.000>there <i>my dear\nold friend</i> &amp; you</v>": (
            "<v Anna>YOU &amp; <i>FRIEND OLD\nDEAR MY</i> THERE HELLO</v>"
        ),
        "- Yes indeed\n- No": "INDEED YES -\nNO -",
    }
    wanted = WEBVTT
    for before, after in changes.items():
        assert before in wanted
        wanted = wanted.replace(before, after)
    assert content.decode() == wanted


def test_markdown_file_keeps_its_front_matter_and_code() -> None:
    text = "---\ntitle: der hund\n---\n\n# Der Hund\n\n```\nhund = 1\n```\n"
    assert [text[start:end] for start, end in untranslatable_blocks(text)] == [
        "---\ntitle: der hund\n---",
        "```\nhund = 1\n```",
    ]
    assert through(".md", text.encode())[1].texts_seen == [text]


def test_invalid_subtitles_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"cannot be read as subtitles \(\.vtt\)"):
        through(".vtt", b"just a text")
    with pytest.raises(InvalidRequest, match=r"cannot be read as subtitles \(\.srt\)"):
        through(".srt", b"just a text")


def test_web_page_keeps_its_declared_encoding() -> None:
    page = '<meta charset="iso-8859-1"><p>gr\u00fcn <b>\u20ac</b> &#9786;</p>'
    content, ask = through(".html", page.encode("cp1252"))
    assert ask.texts_seen == [page]
    assert content == '<meta charset="iso-8859-1"><p>&#9786; <b>\u20ac</b> GR\u00dcN</p>'.encode("cp1252")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"<meta charset=klingon>x", "encoding 'klingon' is not known here"),
        (b"<meta charset=utf-8>\xff", "says that it is in utf-8 and is not"),
        (b"<p>\xff</p>", "neither in UTF-8"),
    ],
)
def test_web_page_in_an_unknown_encoding_is_refused(content: bytes, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        through(".htm", content)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(documents.SUPPORTED),
    st.binary(max_size=200),
    st.sampled_from([b"", b"PK\x03\x04", b"<p>", b"1\n00:00:01,0"]),
)
def test_arbitrary_bytes_are_translated_or_refused(extension: str, content: bytes, start: bytes) -> None:
    try:
        through(extension, start + content)
    except InvalidRequest as failure:
        assert str(failure).endswith(".")
