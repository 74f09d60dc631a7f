"""Files as people's programs write them, and a translator of them."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from app import documents
from app.translation import TextFormat
from tests.app.text.scripted_translation import backwards, translated


class Backwards:
    """Capitals, the last word first."""

    def __init__(self) -> None:
        self.texts_seen: list[str] = []
        self.format: TextFormat | None = None

    async def __call__(self, texts: Sequence[str], form: TextFormat) -> list[str]:
        assert self.format is None, "asked twice"
        self.texts_seen, self.format = list(texts), form
        return [translated(text, backwards) if form == "html" else text.upper() for text in texts]


def through(extension: str, content: bytes) -> tuple[bytes, Backwards]:
    ask = Backwards()
    return asyncio.run(documents.translated(extension, content, ask)), ask


def word_document() -> bytes:
    import docx
    from docx.oxml import parse_xml
    from docx.oxml.ns import nsdecls

    document = docx.Document()
    paragraph = document.add_paragraph("one ")
    paragraph.add_run("two").bold = True
    paragraph.add_run(" thr")
    paragraph.add_run("ee\tfour")
    link = f'<w:hyperlink {nsdecls("w")} w:anchor="x"><w:r><w:t>six</w:t></w:r></w:hyperlink>'
    other = document.add_paragraph("five ")
    other._p.append(parse_xml(link))
    deleted = f'<w:del {nsdecls("w")} w:id="1"><w:r><w:delText>gone</w:delText></w:r></w:del>'
    other._p.append(parse_xml(deleted))
    table = document.add_table(1, 2)
    table.cell(0, 0).text = "cell one"
    document.sections[0].header.paragraphs[0].text = "page head"
    document.sections[0].footer.paragraphs[0].text = "page foot"
    document.add_paragraph("   ")
    out = io.BytesIO()
    document.save(out)
    return with_footnotes(out.getvalue())


def with_footnotes(content: bytes) -> bytes:
    main = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    note = '<w:footnote w:id="2"><w:p><w:r><w:t>the note</w:t></w:r></w:p></w:footnote>'
    notes = f'<w:footnotes xmlns:w="{main}">{note}</w:footnotes>'
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    content_type = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    named = f'<Override PartName="/word/footnotes.xml" ContentType="{content_type}"/></Types>'

    def changed(name: str, data: bytes) -> bytes:
        if name == "[Content_Types].xml":
            return data.replace(b"</Types>", named.encode())
        if name == "word/_rels/document.xml.rels":
            relation = f'<Relationship Id="rId99" Type="{kind}" Target="footnotes.xml"/></Relationships>'
            return data.replace(b"</Relationships>", relation.encode())
        return data

    return repacked(content, changed, {"word/footnotes.xml": notes.encode()})


def repacked(content: bytes, changed: Callable[[str, bytes], bytes], more: dict[str, bytes] | None = None) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member, changed(member.filename, old.read(member)))
        for name, data in (more or {}).items():
            new.writestr(name, data)
    return out.getvalue()


def open_document() -> bytes:
    import odfdo

    document = odfdo.Document("text")
    document.body.clear()
    paragraph = odfdo.Paragraph("one  two three\tfour")
    paragraph.set_span("Bold", regex="two")
    noted = odfdo.Paragraph("five six seven")
    noted.insert_note(after="six", note_id="n", citation="1", body="the note")
    table = odfdo.Table("T", width=1, height=1)
    table.set_value((0, 0), "cell one")
    for part in (paragraph, noted, odfdo.Header(1, "the head"), table, odfdo.List(["first item"])):
        document.body.append(part)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def with_word_paragraphs(xml: str) -> bytes:
    """xml: the content of the document's body."""
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    main = f"<w:document {space}><w:body>{xml}</w:body></w:document>".encode()
    return repacked(_WORD(), lambda name, data: main if name == "word/document.xml" else data)


def with_open_paragraphs(xml: str) -> bytes:
    """xml: appended to the content of the text."""
    end = b"</office:text>"
    return repacked(
        _OPEN(), lambda name, data: data.replace(end, xml.encode() + end) if name == "content.xml" else data
    )


def office_file(kind: str) -> bytes:
    """A spreadsheet or a presentation of one text."""
    import odfdo

    document = odfdo.Document(kind)
    document.body.clear()
    if kind == "spreadsheet":
        part = odfdo.Table("A sheet", width=1, height=1)
        part.set_value((0, 0), "hello world")
    else:
        part = odfdo.DrawPage("page1", name="Page 1")
        part.append(odfdo.Frame.text_frame("hello world", size=("7cm", "5cm"), position=("1cm", "1cm")))
    document.body.append(part)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


_WORD, _OPEN = cache(word_document), cache(open_document)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Sample:
    """A file of one format. pieces: of files that the fuzz tests put together with `made_of`; () for a format whose
    reader has the pieces of another one."""

    content: Callable[[], bytes]
    pieces: tuple[str, ...] = ()
    made_of: Callable[[str], bytes] = _encoded


def _text(text: str) -> Callable[[], bytes]:
    return text.encode


_PAGE = _text("<!doctype html><title>Hello</title><p class=a>Hello <b>world</b></p><script>let a = 1</script>\n")

_CATALOGUE = _text('msgid ""\nmsgstr "Language: de\\n"\n\n#, fuzzy\nmsgid "hello"\nmsgstr ""\n')

# Every row of `app.documents.readers.READERS` has a sample here; tests/app/documents/test_readers.py says so.
SAMPLES = {
    ".txt": Sample(_text("Hello world.\r\n\r\n  Goodbye.\n")),
    ".md": Sample(
        _text("# Hello\n\n```\ncode\n```\n\n- one *two*\n"),
        (
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
    ),
    ".srt": Sample(
        _text("1\n00:00:01,000 --> 00:00:02,000\nHello <i>world</i>\n"),
        (
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
            "999999999999999999999999999999",
            "<",
        ),
    ),
    ".vtt": Sample(
        _text("WEBVTT\n\n1\n00:00:01.000 --> 00:00:02.000\nHello world\n"),
        ("WEBVTT", "\n", "\n\n", "00:01.000 --> 00:02.000", "NOTE ", "<v A>", "<00:01.000>", "Language: de", "a", " "),
    ),
    ".html": Sample(
        _PAGE,
        (
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
            "\x00",
            "ä",
            "</",
        ),
    ),
    ".htm": Sample(_PAGE),
    ".docx": Sample(
        _WORD,
        (
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
        with_word_paragraphs,
    ),
    ".odt": Sample(
        _OPEN,
        (
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
        with_open_paragraphs,
    ),
    ".ods": Sample(partial(office_file, "spreadsheet")),
    ".odp": Sample(partial(office_file, "presentation")),
    ".po": Sample(
        _CATALOGUE,
        (
            'msgid "',
            'msgstr "',
            'msgstr[0] "',
            'msgctxt "',
            'msgid_plural "',
            '"',
            "\n",
            "#, fuzzy\n",
            "#~ ",
            "\\",
            "\\n",
            "a",
        ),
    ),
    ".pot": Sample(_CATALOGUE),
}
