"""Word documents and OpenDocument texts."""

from __future__ import annotations

import asyncio
import io
import random
import zipfile
from collections.abc import Sequence

import pytest

from app import documents
from app.errors import InvalidRequest
from app.translation import TextFormat
from tests.app.documents.sample_documents import open_document, repacked, through, word_document
from tests.app.documents.test_hostile_files import word_file

MAKERS = {".docx": word_document, ".odt": open_document}


def test_word_document_formatting_follows_its_words() -> None:
    import docx

    content, ask = through(".docx", word_document())
    assert ask.format == "html"
    assert ask.texts_seen == [
        "<pre><span id=0>one </span><span id=1>two</span><span id=2> three</span><br id=3><span id=4>four</span></pre>",
        "<pre><span id=0>five </span><span id=1><span id=2>six</span></span><img id=3></pre>",
        "<pre><span id=0>cell one</span></pre>",
        "<pre><span id=0>page head</span></pre>",
        "<pre><span id=0>page foot</span></pre>",
        "<pre><span id=0>the note</span></pre>",
    ]
    document = docx.Document(io.BytesIO(content))
    first, second, blank = document.paragraphs
    assert [(run.text, run.bold) for run in first.runs] == [
        ("THREE ", None),
        ("TWO ", True),
        ("ONE\tFOUR", None),
    ]
    assert [link.text for link in second.hyperlinks] == ["SIX"]
    assert second.text == "SIX FIVE"
    assert second._p.xpath("string(.//w:delText)") == "gone"
    assert blank.text == "   "
    assert document.tables[0].cell(0, 0).text == "ONE CELL"
    assert document.sections[0].header.paragraphs[0].text == "HEAD PAGE"
    assert document.sections[0].footer.paragraphs[0].text == "FOOT PAGE"
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        assert b'<w:t xml:space="preserve">NOTE THE</w:t>' in package.read("word/footnotes.xml")


def test_open_document_formatting_follows_its_words() -> None:
    import odfdo

    content, ask = through(".odt", open_document())
    assert ask.texts_seen == [
        "<pre>one  <span id=0>two</span> three<br id=1>four</pre>",
        "<pre>five six<img id=0> seven</pre>",
        "<pre>the note</pre>",
        "<pre>the head</pre>",
        "<pre>cell one</pre>",
        "<pre>first item</pre>",
    ]
    body = odfdo.Document(io.BytesIO(content)).body.serialize()
    assert '<text:p>THREE <text:span text:style-name="Bold">TWO</text:span> ONE<text:tab/>FOUR</text:p>' in body
    assert "<text:p>SEVEN SIX<text:note " in body
    assert "<text:p>NOTE THE</text:p>" in body
    assert "</text:note> FIVE</text:p>" in body
    assert '<text:h text:outline-level="1">HEAD THE</text:h>' in body
    assert "<text:p>ONE CELL</text:p>" in body
    assert "<text:p>ITEM FIRST</text:p>" in body


@pytest.mark.parametrize("extension", MAKERS)
def test_parts_without_text_are_unchanged(extension: str) -> None:
    before = MAKERS[extension]()
    after, _ = through(extension, before)
    with zipfile.ZipFile(io.BytesIO(before)) as old, zipfile.ZipFile(io.BytesIO(after)) as new:
        assert set(new.namelist()) == set(old.namelist())
        for name in old.namelist():
            if name.endswith((".png", ".jpeg", "mimetype")):
                assert new.read(name) == old.read(name)


@pytest.mark.parametrize("extension", MAKERS)
def test_package_that_unpacks_too_far_is_refused_unread(extension: str) -> None:
    bomb = repacked(MAKERS[extension](), lambda _, data: data, {"Pictures/bomb.bin": b"\0" * 20_000_000})
    with pytest.raises(InvalidRequest, match=r"unpacks to 20,\d{3},\d{3} bytes; it may be 100,000,000, and 100 times"):
        through(extension, bomb)


@pytest.mark.parametrize("extension", MAKERS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_package_that_declares_entities_is_refused(extension: str, encoding: str) -> None:
    xml = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'.encode(encoding)
    with pytest.raises(InvalidRequest, match="declares XML entities"):
        through(extension, repacked(MAKERS[extension](), lambda _, data: data, {"settings2.xml": xml}))


@pytest.mark.parametrize("extension", MAKERS)
def test_broken_packages_are_refused(extension: str) -> None:
    whole, rng = MAKERS[extension](), random.Random(0)
    for _ in range(20):
        broken = bytearray(whole)
        for _ in range(4):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        for content in (bytes(broken), whole[: rng.randrange(len(whole))]):
            try:
                through(extension, content)
            except InvalidRequest as failure:
                assert str(failure).endswith(".")


def test_drawing_is_refused() -> None:
    import odfdo

    out = io.BytesIO()
    odfdo.Document("drawing").save(out)
    with pytest.raises(InvalidRequest, match="an OpenDocument of another kind"):
        through(".odt", out.getvalue())


def test_cells_of_a_spreadsheet() -> None:
    """Texts are translated, for programs that compute with them too; numbers and the results of formulas are not."""
    import odfdo

    document = odfdo.Document("spreadsheet")
    document.body.clear()
    table = odfdo.Table("Sheet name", width=3, height=1)
    table.set_value((0, 0), "cell one")
    table.set_cell((1, 0), odfdo.Cell(3.5, text="3,50 euros", cell_type="currency", currency="EUR"))
    table.set_cell((2, 0), odfdo.Cell("one result", formula='of:=CONCATENATE("one";" result")'))
    document.body.append(table)
    out = io.BytesIO()
    document.save(out)
    content, ask = through(".ods", out.getvalue())
    cells = [text for text in ask.texts_seen if "<img" not in text]  # besides the page numbers of its style
    assert cells == ["<pre>cell one</pre>"]
    changed = odfdo.Document(io.BytesIO(content)).body.get_table(0)
    assert (changed.name, changed.get_value((0, 0)), changed.get_value((1, 0))) == ("Sheet name", "ONE CELL", 3.5)
    assert changed.get_cell((2, 0)).text_recursive.strip() == "one result"


def test_slides_and_notes_of_a_presentation() -> None:
    import odfdo

    document = odfdo.Document("presentation")
    document.body.clear()
    page = odfdo.DrawPage("page1", name="Page 1")
    page.append(odfdo.Frame.text_frame(["one title", "two three"], size=("7cm", "5cm"), position=("1cm", "1cm")))
    notes = odfdo.Element.from_tag("presentation:notes")
    notes.append(odfdo.Frame.text_frame("my notes", size=("7cm", "5cm"), position=("1cm", "1cm")))
    page.append(notes)
    document.body.append(page)
    out = io.BytesIO()
    document.save(out)
    content, _ = through(".odp", out.getvalue())
    changed = odfdo.Document(io.BytesIO(content)).body
    assert [paragraph.text_recursive for paragraph in changed.get_elements("//draw:page//text:p")] == [
        "TITLE ONE",
        "THREE TWO",
        "NOTES MY",
    ]


@pytest.mark.parametrize("element", ['customXml w:element="x"', 'dir w:val="rtl"', 'bdo w:val="ltr"'])
def test_words_inside_every_wrapper_of_runs_are_translated(element: str) -> None:
    """They stayed in the language of the source."""
    wrapped = f"<w:{element}><w:r><w:t>two three</w:t></w:r></w:{element.split()[0]}>"
    content, ask = through(".docx", word_file(f"<w:p><w:r><w:t>one </w:t></w:r>{wrapped}</w:p>"))
    assert "two three" in ask.texts_seen[0]
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        written = package.read("word/document.xml").decode()
    assert "THREE" in written
    assert f"<w:{element}>" in written


def through_unchanged(paragraph: str) -> str:
    """The paragraph of an OpenDocument whose translation has the same words."""
    import odfdo

    document = odfdo.Document("text")
    document.body.clear()
    document.body.append(odfdo.Element.from_tag(paragraph))
    out = io.BytesIO()
    document.save(out)

    async def unchanged(texts: Sequence[str], _: TextFormat) -> list[str]:
        return list(texts)

    content = asyncio.run(documents.translated(".odt", out.getvalue(), unchanged))
    return odfdo.Document(io.BytesIO(content)).body.serialize().removeprefix("<office:text>").split("</office:text>")[0]


@pytest.mark.parametrize(
    ("paragraph", "written"),
    [
        ('<text:p>a<text:s text:c="3"/>b c</text:p>', '<text:p>a <text:s text:c="2"/>b c</text:p>'),
        ('<text:h>a <text:s text:c="1"/>b c</text:h>', '<text:h>a <text:s text:c="1"/>b c</text:h>'),
        ('<text:p><text:s text:c="4"/>a b</text:p>', '<text:p><text:s text:c="4"/>a b</text:p>'),
        (
            '<text:p>a <text:span>b <text:s text:c="2"/>c</text:span> d <text:s text:c="1"/>e</text:p>',
            '<text:p>a <text:span>b <text:s text:c="2"/>c</text:span> d <text:s text:c="1"/>e</text:p>',
        ),
        ("<text:p>\n   a\n   b</text:p>", "<text:p>a b</text:p>"),
        ("<text:p>a <!-- x -->b<?x y?> c</text:p>", "<text:p>a b c</text:p>"),
    ],
)
def test_words_behind_spaces_and_comments_stay(paragraph: str, written: str) -> None:
    """All words of a paragraph behind two spaces were lost, and a file with a comment was refused."""
    assert through_unchanged(paragraph) == written
