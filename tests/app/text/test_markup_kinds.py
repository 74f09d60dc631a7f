"""Kinds of markup within sentences, each with generated members, through the whole pipeline. The engine writes each
word in capitals, in the order of the source or backwards, and aligns every word."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence

import pytest

from app.text.html_page import parse_page
from app.text.xml_page import is_xml
from app.translation import TextFormat
from app.translation.driver import Translator
from tests.app.text.scripted_translation import backwards, same, translated
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request

MEMBERS = 24
SENTENCES = (
    "<p>Wir trinken ISLAND zum Essen.</p>",
    "<p>ISLAND steht im Wasser.</p>",
    "<p>Das ist <b>nur ISLAND</b>, mehr nicht</p>",
    "<ul><li>Heute sehen wir ISLAND</ul>",
    "<td>Am Morgen, ISLAND, und am Abend</td>",
)
FORMULAS = """\
H<sub>2</sub>O
CO<sub>2</sub>
C<sub>6</sub>H<sub>12</sub>O<sub>6</sub>
CaCO<sub>3</sub>
Al<sub>2</sub>(SO<sub>4</sub>)<sub>3</sub>
SO<sub>4</sub><sup>2-</sup>
Ca<sup>2+</sup>
Na<sup>+</sup>
C<sub>2</sub>H<sub>5</sub>OH
H<span class="sub">2</span>O
H<sub class="s">2</sub>O
x<sup>2</sup>
<i>x</i><sup>2</sup>
x<sub>i</sub>
v<sub>max</sub>
2<sup>n</sup>
10<sup>6</sup>
log<sub>2</sub>
mc<sup>2</sup>
N<sub>A</sub>
U<sub>0</sub>
1<sup>er</sup>
10 m<sup>2</sup>
2,5&nbsp;km<sup>2</sup>
cm<sup>3</sup>
USA<sup>1</sup>""".splitlines()
NOTES = """\
<sup>1</sup>
<sup>12</sup>
<sup>[3]</sup>
<sup>a</sup>
<sup>*</sup>
<sup>†</sup>
<sup>1,2</sup>
<sup>1–3</sup>
<sup>®</sup>
<sup>&trade;</sup>
<sup>&#174;</sup>
<sup>&dagger;</sup>
<sup>TM</sup>
<sup>1)</sup>
<sub>1</sub>
<sup class="fn">4</sup>
<sup><a>[1]</a></sup>
<sup><a href="#fn1">1</a></sup>
<sup id="r"><a href="#n"><span>[</span>1<span>]</span></a></sup>
<sup><b>2</b></sup>
<a href="#fn1">[1]</a>
<a href="#fn1">1</a>
<span class="ref">[7]</span>
<sup>1</sup><sup>2</sup>
<sup><a href="#a">[1]</a></sup><sup><a href="#b">[2]</a></sup>
<sup>‡</sup>
<sup><i>b</i></sup>""".splitlines()
RUBIES = [
    f"<ruby{attribute}>{base}{reading}</ruby>"
    for base in ("Berlin", "北京", "New York", "B12")
    for attribute in ("", ' class="r"')
    for reading in ("<rt>ber-leen</rt>", "<rp>(</rp><rt>bei</rt><rp>)</rp>", "<rt>b<b>e</b></rt>")
]
INSTRUCTIONS = """\
<?php echo $a->b; ?>
<?= $name ?>
<?= $a > 0 ? "<b>" : '' ?>
<?php print("x>y"); ?>
<?php if ($a > 1 && $b < 2): ?>
<?php foreach ($a as $k => $v) { ?>
<?php /* <p> */ ?>
<? echo $x; ?>
<%= user.name %>
<%= link_to "<b>", a > b %>
<% if a > b %>
<%- name -%>
<%# a comment > b %>
<%@ page import="java.util.List<String>" %>
<%== raw > html %>
<%! int x = 1 > 0 ? 1 : 2; %>
<?php endif ?>
<?= $obj->get()->name ?>
<%= t('.title > x') %>
<% } %>
<?php echo '</p>'; ?>
<?php echo $a['<i>']; ?>""".splitlines()
WORDED = ["Wenn a<b und c>d ist", "Wenn x<y, dann y>x", "if (a<b) und (c>d)", "Es gilt i<n; sonst", "a<b", "ein x<n"]
COMPARISONS = [f"{left}<{sign}{right}" for left in ("x", "n1", "a", "größe") for sign in ("", "=") for right in "5n9"]


def answers(texts: Sequence[str], text_format: TextFormat = "html", *, backwards: bool = False) -> list[str]:
    requests = [text_request(text, "de", "en", format=text_format) for text in texts]
    translator = Translator(WordEngine(backwards=backwards))
    return [result.text for result in asyncio.run(translator.translate(requests))]


def in_capitals(page: str, island: str) -> str:
    """The page with its texts in capitals, but not its island, tags and references."""
    parts = re.split(f"({re.escape(island)}|<[^<>]*>|&[^;]*;)", page)
    return "".join(part if number % 2 else part.upper() for number, part in enumerate(parts))


def pages_with(islands: Sequence[str], patterns: Sequence[str] = SENTENCES) -> list[tuple[str, str]]:
    """Pages, each with its island, for which ISLAND stands in a pattern."""
    assert len(islands) >= 20
    return [
        (patterns[(number + shift) % len(patterns)].replace("ISLAND", island), island)
        for shift in range(2)
        for number, island in enumerate(islands)
    ]


@pytest.mark.parametrize(
    "islands",
    [FORMULAS, RUBIES, [*INSTRUCTIONS, "<?php\n  echo $a->b;\n?>"]],
    ids=["formulas", "rubies", "instructions"],
)
def test_island_in_a_sentence_comes_back_in_its_place(islands: list[str]) -> None:
    pages = pages_with(islands)
    texts = [page for page, _ in pages]
    assert answers(texts) == [in_capitals(page, island) for page, island in pages]
    for (page, island), answer in zip(pages, answers(texts, backwards=True), strict=True):
        assert answer.count(island) == 1, (page, answer)
        without = re.sub("<[^<>]*>", "", answer.replace(island, ""))
        assert not re.search(r"[a-zäöü]", re.sub("&[a-z]*;", "", without)), answer


@pytest.mark.parametrize("behind", [" steht da", ", der dort steht,", ".", " <b>steht</b>", ""])
def test_number_of_a_footnote_stays_behind_its_word(behind: str) -> None:
    assert len(NOTES) >= 20
    texts = [f"<p>Ein Mann{note}{behind}</p>" for note in NOTES]
    assert answers(texts) == [in_capitals(text, note) for text, note in zip(texts, NOTES, strict=True)]
    if behind not in ("", "."):  # else it stays at the end, wherever the word goes
        for note, answer in zip(NOTES, answers(texts, backwards=True), strict=True):
            assert f"MANN{note}" in answer, answer


@pytest.mark.parametrize("note", NOTES)
def test_number_of_a_footnote_stays_behind_its_sentence(note: str) -> None:
    page = f"<p>Ein Mann steht da.{note} Er ist alt.{note}</p>"
    assert answers([page]) == [in_capitals(page, note)]


def test_number_before_a_footnote_stays_at_its_beginning() -> None:
    notes = [note for note in NOTES if note.startswith("<sup")]
    texts = [f"<li>{note} Siehe oben</li>" for note in notes]
    expected = [f"<li>{note} SIEHE OBEN</li>" for note in notes]
    known = [number for number, note in enumerate(notes) if not re.search("®|TM|&", note)]
    written = answers(texts)
    assert [written[number] for number in known] == [expected[number] for number in known]


@pytest.mark.parametrize("island", COMPARISONS)
def test_less_than_sign_that_begins_no_tag_comes_back(island: str) -> None:
    for page in (f"Wenn {island} und y>3 ist, komme ich", f"<p>Es gilt {island}, a < b und <b>{island}</b>.</p>"):
        assert translated(page) == page
        assert translated(page, backwards).count(island) == page.count(island)


@pytest.mark.parametrize("text", WORDED)
def test_variable_after_a_less_than_sign_is_no_tag(text: str) -> None:
    for page in (f"{text}, komme ich", f"<p>{text} <b>morgen</b></p><p>{text}, komme ich</p>".replace("a<b", "a<c")):
        assert translated(page) == page
        assert "<" not in re.sub(r"\w<\w|</?[bp]>", "", translated(page, backwards))


def test_word_after_a_less_than_sign_is_translated() -> None:
    page = "<p>Wenn x <y ist, komme ich</p><p>morgen</p>"
    assert parse_page(page).texts == ["Wenn x <y ist, komme ich", "morgen"]
    assert translated(page) == page


@pytest.mark.parametrize("escaped", ["&lt;b>", "&lt;script>x&lt;/script>", "a&lt;b&gt;"])
def test_escaped_tag_never_becomes_a_tag(escaped: str) -> None:
    for page in (f"<p>Wenn i <b und b> 3 ist {escaped}</p>", f"<p>{escaped} i < s oder i <s und s> j</p>"):
        answer = translated(page, lambda text: (text, None))
        assert "<script" not in answer
        assert answer.count("&lt;") >= escaped.count("&lt;")


VOIDS = [f"<{tag}>" for tag in ("img src='a.png'", "img alt='x > y'", "input", "embed src=a", "source", "track")]
APART = [*VOIDS, "<svg><path d='M0'/></svg>", "<a href=x><img src=y></a>", "<object>x</object>", "<canvas></canvas>"]
COPIED = ["<kbd>Uwe</kbd>", "<code>f(x)</code>", "<span translate=no>Uwe</span>", "<b class=notranslate>Uwe</b>"]


@pytest.mark.parametrize("island", [*APART, *COPIED, *(f"<b>{void}</b>" for void in VOIDS), *(v * 2 for v in VOIDS)])
def test_words_around_void_and_ignored_elements_are_not_glued(island: str) -> None:
    for space, other in (("", ""), (" ", ""), ("", " "), (" ", " ")):
        page = f"<p>Guten Morgen{space}{island}{other}ich komme</p>"
        for text in parse_page(page).texts:
            assert not re.search("(Morgen|Uwe)(ich|Uwe)", text), text
        assert translated(page) == page
    assert "ICHMORGEN" not in translated(f"<p>Guten Morgen{island}ich komme</p>", backwards)


@pytest.mark.parametrize("void", VOIDS)
def test_line_break_and_image_between_words(void: str) -> None:
    page = f"<p>Guten Morgen<br>{void}ich möchte ein Bier</p>"
    assert answers([page]) == [in_capitals(page, void)]


@pytest.mark.parametrize(
    ("page", "xml"),
    [
        ("<?xml version='1.0'?><p>Ein Mann</p>", True),
        ("<!DOCTYPE resources><resources><string>Ein Mann</string></resources>", True),
        ("<table><row><cell>Ein</cell><cell>Zwei</cell></row></table>", True),
        ("<resources>\n  <string name='a'>Ein</string>\n  <string name='b'>Zwei</string>\n</resources>", True),
        ("<doc><title>Ein</title><par>Zwei</par></doc>", True),
        ("<row><cell>Ein</cell></row><row><cell>Zwei</cell></row>", True),
        ("<!DOCTYPE html><html><body><p>Ein Mann</p></body></html>", False),
        ("<?xml version='1.0'?><!DOCTYPE html><html><p>Ein Mann</p></html>", False),
        ("<?xml version='1.0'?>\n<html><p>Ein Mann</p></html>", False),
        ("<p>Ein <foo>Mann</foo> steht</p>", False),
        ("<my-app><my-word>Ein</my-word></my-app>", False),
        ("<b1>Ein</b1> <i2/> <g3>Mann</g3> <x4/>", False),
        ("<p>Ein <svg><path/><circle/><rect/></svg></p>", False),
        ("<doc><par>Ein</doc>", False),
        ("Ein Mann, 3 < 4", False),
    ],
)
def test_page_is_xml_by_what_it_is(page: str, xml: bool) -> None:
    assert is_xml(page) == xml
    assert "".join(parse_page(page).pieces([same(text) for text in parse_page(page).texts])) == page


def test_cells_of_xml_are_texts_of_their_own() -> None:
    rng = random.Random(34)
    for _ in range(MEMBERS):
        cells = [rng.choice(("Ein Mann", "Zwei", "ein Haus am See")) for _ in range(rng.randint(2, 5))]
        table, row, cell = (
            rng.choice(names) for names in (("table", "list", "t"), ("row", "r"), ("cell", "c", "entry"))
        )
        rows = "".join(f"<{cell}>{text}</{cell}>" for text in cells)
        page = f"<{table}><{row}>{rows}</{row}></{table}>"
        assert parse_page(page).texts == cells
        assert answers([page]) == [in_capitals(page, "|")]
