"""The language and the title that a file declares are those of its translation."""

from __future__ import annotations

import asyncio
import io
import zipfile

import pytest

from app import documents
from tests.app.documents.sample_documents import Backwards


def translated(extension: str, content: bytes) -> bytes:
    return asyncio.run(documents.translated(extension, content, Backwards(), lambda: "en"))


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ('<html lang="de"><p>eins</p></html>', '<html lang="en"><p>EINS</p></html>'),
        ('<html class=x lang=de-AT xml:lang="de"><p>eins</p>', '<html class=x lang=en xml:lang="en"><p>EINS</p>'),
        (
            '<meta http-equiv="Content-Language" content="de"><title>zwei</title><p lang="fr">eins</p>',
            '<meta http-equiv="Content-Language" content="en"><title>ZWEI</title><p lang="fr">EINS</p>',
        ),
        ("<html><p>eins</p></html>", "<html><p>EINS</p></html>"),
    ],
)
def test_web_page(page: str, wanted: str) -> None:
    assert translated(".html", page.encode()).decode() == wanted


def test_word_document() -> None:
    import docx

    document = docx.Document()
    document.core_properties.title = "mein Titel & mehr"
    document.core_properties.language = "de-DE"
    document.add_paragraph("eins zwei")
    for element in document.styles.element.iter():
        if element.tag.endswith("}lang"):
            element.set(element.tag.replace("}lang", "}val"), "de-DE")
    out = io.BytesIO()
    document.save(out)
    written = docx.Document(io.BytesIO(translated(".docx", out.getvalue())))
    assert written.paragraphs[0].text == "ZWEI EINS"
    assert written.core_properties.title == "MEHR & TITEL MEIN"
    assert written.core_properties.language == "en"
    languages = {
        element.get(element.tag.replace("}lang", "}val"))
        for element in written.styles.element.iter()
        if element.tag.endswith("}lang")
    }
    assert languages == {"en"}


def test_open_document() -> None:
    import odfdo

    document = odfdo.Document("text")
    document.meta.title = "mein Titel"
    document.meta.language = "de-DE"
    document.body.append(odfdo.Paragraph("eins zwei"))
    table = odfdo.Table("t", width=1, height=1)
    table.set_value("A1", "drei vier")
    document.body.append(table)
    out = io.BytesIO()
    document.save(out)
    content = translated(".odt", out.getvalue())
    written = odfdo.Document(io.BytesIO(content))
    assert written.meta.title == "TITEL MEIN"
    assert written.meta.language == "en"
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        inside = package.read("content.xml").decode()
    assert 'office:string-value="VIER DREI"' in inside
    assert "drei" not in inside
