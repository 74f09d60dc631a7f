"""Files that were made to cost much, or to break what reads them."""

from __future__ import annotations

import io
import zipfile

import pytest

from app.documents import document_reader
from app.documents.subtitles import SubRip
from app.documents.text_files import PlainText, WebPage
from app.documents.word_document import WordDocument
from app.errors import InvalidRequest
from app.text import html_page
from tests.app.documents.sample_documents import open_document, repacked, through, word_document
from tests.time_limits import processor_seconds

TIMES = "1\n00:00:01,000 --> 00:00:02,000\n"
MAKERS = {".docx": word_document, ".odt": open_document}


def word_file(body: str) -> bytes:
    """A Word document with this content of its body."""
    main = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    xml = f'<w:document xmlns:w="{main}"><w:body>{body}</w:body></w:document>'.encode()
    return repacked(word_document(), lambda name, data: xml if name == "word/document.xml" else data)


@pytest.mark.parametrize(
    "text",
    [
        "1" * 300_000,
        TIMES + " " * 300_000,
        TIMES + "a\r" + "\r" * 300_000,
        TIMES + "9" * 300_000,
        "00:00:01,000 --> " * 20_000,
        (TIMES + "\n").replace(",000", "," + "0" * 200) * 700,
    ],
)
def test_subtitles_are_read_in_linear_time(text: str) -> None:
    with processor_seconds(3):
        try:
            SubRip(text.encode())
        except InvalidRequest as failure:
            assert "cannot be read as subtitles" in str(failure)


def test_run_has_its_properties_once_however_many_parts_it_has() -> None:
    properties = "<w:b/>" * 200
    parts = "<w:t>one</w:t><w:tab/>" * 200
    content, ask = through(".docx", word_file(f"<w:p><w:r><w:rPr>{properties}</w:rPr>{parts}</w:r></w:p>"))
    assert ask.texts_seen[0].count("<span") == ask.texts_seen[0].count("<br") == 200
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        written = package.read("word/document.xml")
    assert written.count(b"<w:b/>") == 200
    assert written.count(b"ONE</w:t><w:tab/>") == 200


def test_paragraphs_in_great_numbers_are_refused_before_they_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_reader, "MAX_MARKUP", 50_000)
    content = word_file("<w:p/>" * 50_000)
    assert len(content) < 50_000
    with pytest.raises(InvalidRequest, match=r"The file has 10\d,\d{3} tags and attributes; it may have 50,000"):
        WordDocument(content)


def test_page_of_too_many_tags_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_page, "MAX_TAGS", 20_000)
    with pytest.raises(InvalidRequest, match=r"The page has 20,001 tags; it may have 20,000\. Send it in parts\.$"):
        WebPage(b"<p>" * 20_001)


def test_spaces_that_are_written_as_numbers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    spaces = '<text:s text:c="1000"/>' * 20
    content = repacked(
        open_document(), lambda name, data: data.replace(b"<text:tab/>", spaces.encode()) if "content" in name else data
    )
    monkeypatch.setattr(document_reader, "MAX_CHARACTERS", 10_000)
    with pytest.raises(InvalidRequest, match="more than 10,000 characters"):
        through(".odt", content)


ENTITY = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'


@pytest.mark.parametrize("extension", MAKERS)
@pytest.mark.parametrize(
    ("name", "xml", "says"),
    [
        ("settings2.XML", ENTITY.encode(), "declares XML entities"),
        ("customXml/item1", ENTITY.encode(), "declares XML entities"),
        ("odd.bin", b"\xff\xfe" + ENTITY.encode("utf-16-le"), "declares XML entities"),
        ("odd.svg", ENTITY.encode(), "declares XML entities"),
        (
            "settings2.xml",
            b'<?xml version="1.0" encoding="UTF-7"?>' + ENTITY.replace("<", "+ADw-").encode(),
            "in an encoding",
        ),
        ("settings2.xml", ENTITY.encode("cp037"), "in an encoding"),
    ],
)
def test_entities_are_found_under_any_name_and_encoding(extension: str, name: str, xml: bytes, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        through(extension, repacked(MAKERS[extension](), lambda _, data: data, {name: xml}))


def test_drawing_with_a_document_type_stays_in_its_document() -> None:
    drawing = b'<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x.dtd"><svg/>'
    content, _ = through(".odt", repacked(open_document(), lambda _, data: data, {"Pictures/a.svg": drawing}))
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        assert package.read("Pictures/a.svg") == drawing


def test_parsed_part_with_a_document_type_is_refused() -> None:
    """A name and a beginning may hide it from the look at the bytes; the parser says so."""
    from lxml import etree

    root = etree.fromstring('<!DOCTYPE a [<!ENTITY x "y">]><a/>')
    with pytest.raises(InvalidRequest, match="declares XML entities"):
        document_reader.refuse_entities(root)
    document_reader.refuse_entities(etree.fromstring("<a/>"))


def test_long_text_and_page_are_sections() -> None:
    paragraphs = [f"Satz {number}. " * 90 + "\n\n" for number in range(120)]
    for text, sections in (
        ("".join(paragraphs), PlainText("".join(paragraphs).encode()).texts),
        (page := "".join(f"<p>{p}</p>" for p in paragraphs), WebPage(page.encode()).texts),
    ):
        assert "".join(sections) == text
        assert len(sections) > 4
        assert max(map(len, sections)) < 22_000
        assert all(section.endswith(("\n\n", "</p>")) for section in sections)


@pytest.mark.parametrize(
    "label", ["hex", "rot13", "zlib", "undefined", "idna", "punycode", "unicode_escape", "klingon"]
)
def test_codecs_that_are_no_text_encodings_are_refused(label: str) -> None:
    with pytest.raises(InvalidRequest, match=f"The page's encoding '{label}' is not known here"):
        WebPage(f"<meta charset={label}>x".encode())
