"""XML: what stands between the passages, and how tags come back."""

from __future__ import annotations

import time
import xml.parsers.expat
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.errors import InvalidRequest
from app.text.xml_page import check_well_formed, parse_xml
from tests.app.text.scripted_translation import at_random, backwards, same

CATALOGUE = """\
<?xml version="1.0" encoding="UTF-8" standalone='yes'?>
<?xml-stylesheet href="a>b.css"?>
<!-- <list> -->
<!DOCTYPE list [
  <!ENTITY firma "Bier &amp; Söhne ]>">
  <!-- don't <end> ]> here -->
  <!ATTLIST item note CDATA 'a > b'>
]>
<list\tversion = '1 > 0'>
    <source>Ein Bier</source>
    <item note="&firma;"/>

    <par>
        Zwei   Zeilen,
\tdie <b>eine
        Stelle</b>
        haben: &firma;&#160;!
        <!-- ein Wort dazu -->
        <?ziel hier?>
        1 &lt; 2 &amp; 3 &gt; 2 &#xE4;
    </par>
    <title><i>A</i><i>B</i></title>
    <script/>
    <cdata><![CDATA[ <roh> & ]]></cdata>
</list>
<!-- Ende -->
"""


def translated(text: str, how=same) -> str:  # type: ignore[no-untyped-def]
    page = parse_xml(text)
    return "".join(page.pieces([how(passage) for passage in page.texts]))


def test_document_comes_back_to_the_letter() -> None:
    check_well_formed(CATALOGUE, "text")
    assert translated(CATALOGUE) == CATALOGUE.replace("&#xE4;", "ä")
    assert translated(CATALOGUE.replace("\n", "\r\n")) == CATALOGUE.replace("&#xE4;", "ä").replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("ein <b>Bier</b>", ["ein Bier"]),
        ("ein <x/> Bier", ["ein Bier"]),  # no wide space for the model
        ("\n  ein\n  <x/>\n  <!-- a -->\n  <b> Bier </b> hier", ["  ein", "  Bier hier"]),
        ("ein <x/>\nBier <b>\n hier </b>\r\nda", ["ein ", "Bier ", " hier ", "da"]),  # lines are no one sentence
        ("<doc><title>Eins</title><par>Zwei</par></doc>", ["Eins", "Zwei"]),
        ("<par>ein <g><x>rotes</x></g> Bier</par>", ["ein rotes Bier"]),
        ("<title>a <title>b</title></title>", ["a ", "b"]),  # HTML reads no tags in a <title>
        ("<link>a</link><meta>b</meta><source>c</source>", ["a", "b", "c"]),  # which are void in HTML
        ("Eins<br/>Zwei", ["Eins", "Zwei"]),
        ("<x translate='no'><y>a</y></x> b <z translate=\"no\">c</z>", ["a b c"]),
        ("<x class='notranslate'><y>a</y></x>", []),
        ("f&#252;r <code>f(x)</code>", ["für {1}"]),
        ("<!DOCTYPE a [<!ENTITY uuml 'U'>]><a>f&uuml;r &auml;</a>", ["f{1}r ä"]),
        ("Zeile&#10;zwei", ["Zeile", "zwei"]),
        ("<B>a</B> <b>b</b>", ["a", "b"]),
    ],
)
def test_passages(text: str, passages: list[str]) -> None:
    assert parse_xml(text).texts == passages
    assert translated(text) == text.replace("&#252;", "ü").replace("&auml;", "ä")


def test_answer_in_xml_has_no_reference_that_xml_lacks() -> None:
    assert translated("ein&#160;Bier", lambda text: ("a\xa0b ]]> c", None)) == "a&#160;b ]]&gt; c"
    assert translated("ein > Bier", lambda text: ("a ]]> > c", None)) == "a ]]&gt; > c"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("<a>b", "line 1"),
        ("a & b", "line 1"),
        ("\n\n<?xml version='1.0'?>\n<a>\n</b>", "line 5"),
        ("<?xml version='1.0'?><a/>b", "line 1"),
        ("a</_><_>b", "line 1"),
        ("<!DOCTYPE a><a>&firma;</a>", "line 1"),
        ("a<?xml version='1.0'?>", "line 1"),
    ],
)
def test_text_that_is_not_well_formed_is_refused(text: str, where: str) -> None:
    with pytest.raises(InvalidRequest, match=where):
        check_well_formed(text, "text")


def test_nested_entities_are_not_expanded() -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 20))
    text = f'<!DOCTYPE a [<!ENTITY e0 "x">{entities}]><a>Bier &e19;</a>'
    check_well_formed(text, "text")
    assert translated(text) == text
    with pytest.raises(InvalidRequest):
        check_well_formed(text.replace("<a>", "<a b='&e19;'>"), "text")


GAPS = st.sampled_from(["", " ", "\n", "\n    ", "\r\n\t", "  \n\n  ", "&#10;", "&#xA0;"])
LETTERS = (
    " Bier ",
    "\nein Bier.\t",
    "\r\n für\n    alle ",
    " x &lt; y ",
    " ein\xa0Wort ",
)  # apart: no tag within a word
SIGNS = ("1 &lt; 2", "{1}", ">", "&amp;", "]", "]&gt;", "&lt;a&gt;", "Bier", "7", "x&#252;y")
ALONE = st.sampled_from(
    ["<!-- a <b> ' -->", "<?p <x> ?>", "<![CDATA[ <y> & ]]>", "<x/>", "<br />", "<c a='>'/>", "<p/>"]
)
TAGS = st.sampled_from(["a", "b", "B", "p", "code", "title", "link", "script", "x:y", "td", "ä", "x translate='no'"])


def content(*words: str) -> st.SearchStrategy[str]:
    flat = GAPS | ALONE | st.sampled_from(words)

    def element(name: str, inner: str) -> str:
        return f"<{name}>{inner}</{name.split()[0]}>"

    return st.recursive(
        st.lists(flat, max_size=4).map("".join),
        lambda inner: st.lists(st.builds(element, TAGS, inner) | flat, max_size=6).map("".join),
        max_leaves=14,
    )


def nodes(text: str) -> Counter[tuple[str, ...]]:
    """How often each start tag, comment, instruction and CDATA section is there, with the start tags around it."""
    found: Counter[tuple[str, ...]] = Counter()
    way: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        way.append(f"{name}{attributes}")
        found[tuple(way)] += 1

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, lambda name: way.pop()
    parser.CommentHandler = lambda data: found.update([(*way, f"comment {data}")])
    parser.ProcessingInstructionHandler = lambda *what: found.update([(*way, f"instruction {what}")])
    parser.StartCdataSectionHandler = lambda: found.update([(*way, "CDATA")])
    parser.Parse(f"<_>{text}</_>", True)
    return found


@settings(max_examples=60, deadline=None)
@given(content(*LETTERS))
@example("a <b>\n  <!-- c -->\n  d\n</b>\n e")
@example("<!-- a --> \n  b<x/>  c")
@example("<a> Bier </a><code> Bier </code> Bier ")
@example(" Bier <code> Bier  Bier </code>")
@example("Bier <code>Bier</code> Bier <code>Bier</code> Bier Bier")
def test_text_that_a_translation_repeats_comes_back_to_the_letter(text: str) -> None:
    assert translated(text).replace("\xa0", "&#xA0;") == text.replace("\xa0", "&#xA0;")


@settings(max_examples=60, deadline=None)
@given(content(*LETTERS, *SIGNS), st.integers())
def test_answer_is_well_formed_and_nested_as_the_source(text: str, seed: int) -> None:
    check_well_formed(text, "text")
    for how in (backwards, at_random(seed), lambda passage: (passage.upper(), None), lambda passage: ("", None)):
        assert nodes(translated(text, how)) == nodes(text)


@pytest.mark.parametrize("space", ["\n", "\r\n", "\n\n  "])
@pytest.mark.parametrize("tag", ["<x/>", '<x id="1"></x>', '<x translate="no">%s</x>', '<x translate="no">Uwe</x>'])
@pytest.mark.parametrize(
    "how", [lambda text: (text, None), lambda text: (text.replace(" Uwe", "").replace(" {1}", ""), None)]
)
def test_tag_at_the_end_of_a_line_stays_there(tag: str, space: str, how) -> None:  # type: ignore[no-untyped-def]
    assert translated(f"Guten Tag {tag}{space}Danke", how) == f"Guten Tag {tag}{space}Danke"


@pytest.mark.every_value
@pytest.mark.parametrize("first", ["a", ""])
@pytest.mark.parametrize(
    "piece", ["<a>b</a> ", "<a/>\n ", "&e;", "<!-- a -->", "<?a?>", "a<b c='", "  ", "<a ", "]]>", "<?"]
)
def test_time_is_linear_in_the_length_of_the_text(piece: str, first: str) -> None:
    text = first + piece * (100_000 // len(piece))
    began = time.process_time()
    try:
        check_well_formed(text, "text")
    except InvalidRequest:
        return
    translated(text)
    assert time.process_time() - began < 10, "a quadratic way takes minutes"
