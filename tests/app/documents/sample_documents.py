"""Files as people's programs write them, and a translator of them."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Callable, Sequence

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
