"""Generated XML documents through the whole pipeline, DeepL's options on the division of XML, and the requests of
translators' tools. The engine writes each word in capitals and aligns every word."""

from __future__ import annotations

import asyncio
import random
import re
import xml.parsers.expat
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.text.html_page import parse_page
from app.text.page_parser import NO_RULES, TagRules
from app.text.xml_page import check_well_formed, parse_xml
from app.translation.driver import Translator
from tests.app.text.scripted_translation import same
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request

DOCUMENTS = 500
WORDS = ["ein", "mann", "steht", "vor", "dem", "haus", "und", "trinkt", "wasser", "am", "see", "für", "öl"]
STRUCTURE = ("doc", "section", "row", "cell", "string", "item", "ns:entry", "Title", "p", "li", "data-x", "ä", "entry")
INLINE = ("b", "emph", "x", "g1", "ns:ref", "Link", "span")
ATTRIBUTES = (
    "",
    ' id="1"',
    " name='a > b'",
    ' xml:space="preserve"',
    ' t="&lt;b&gt; &amp;"',
    "\n    n='1'",
    ' lang="de"',
)
PROLOGS = (
    "",
    '<?xml version="1.0"?>\n',
    "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>\r\n",
    "<!-- a > b -->\n<?xml-stylesheet href='a'?>\n",
    '<?xml version="1.0"?><!DOCTYPE doc [<!ENTITY firma "Bier &amp; Co">\n<!-- ]> -->]>\n',
)
BETWEEN = ("<!-- ein <b> Wort -->", "<?ziel a > b ?>", "<hr/>", "<x/>")
WITHIN = ("<!-- wort -->", "<?wort?>", "<x/>", '<g1 id="1"/>', "<![CDATA[<b> &]]>", "<code>f(x)</code>")

Pair = tuple[str, str]  # a part of a source, and what is expected of it


class Document:
    """source: a well-formed document. expected: the document with its texts in capitals."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._lines = self._rng.random() < 0.7
        prolog = self._rng.choice(PROLOGS)
        self._references = ["&amp;", "&lt;", "&#228;", *(["&firma;"] * ("firma" in prolog))]
        self.source, self.expected = (prolog + body for body in self._structure(0))

    def _structure(self, depth: int) -> Pair:
        kind = self._rng.random()
        name = self._rng.choice(STRUCTURE[:-1])
        if kind < 0.05:
            return self._both(f"<{name}{self._rng.choice(ATTRIBUTES)}/>")
        if kind < 0.1:
            return self._element(name, self._both(self._rng.choice(("", "<![CDATA[<roh> & Wörter]]>"))))
        return self._element(name, self._elements(depth + 1) if depth < 3 and kind < 0.6 else self._paragraph())

    def _elements(self, depth: int) -> Pair:
        """Elements alone, some with indentation."""
        gap = "\n" + "  " * depth if self._lines else ""
        parts: list[Pair] = []
        for _ in range(self._rng.randint(1, 4)):
            side = self._rng.choice(BETWEEN) if self._rng.random() < 0.2 else ""
            parts += [self._both(gap + side), self._structure(depth)]
        return self._joined([*parts, self._both(gap[:-2])])

    def _paragraph(self) -> Pair:
        """Words, some of which are in inline elements. The first is not: these are elements beside text."""
        parts = [self._words()]
        for _ in range(self._rng.randint(0, 4)):
            kind = self._rng.random()
            name = self._rng.choice(INLINE)
            parts.append(self._both(" "))
            if kind < 0.35:
                parts.append(self._element(name, self._words()))
            elif kind < 0.45:
                parts.append(self._element(name, self._element(self._rng.choice(INLINE), self._words())))
            elif kind < 0.55:
                parts.append(self._both(self._rng.choice(WITHIN)))
            elif kind < 0.6:
                parts.append(self._both(self._rng.choice(self._references)))
            elif kind < 0.65:
                cells = [self._element("entry", self._words()) for _ in range(self._rng.randint(2, 3))]
                parts.append(self._element("list", self._element("entries", self._joined(cells))))
            else:
                parts.append(self._words())
        inside = self._joined([*parts, self._both(self._rng.choice(("", ".", "!")))])
        around = self._both("\n      "), self._both("\n    ")
        return self._joined([around[0], inside, around[1]]) if self._lines and self._rng.random() < 0.3 else inside

    def _element(self, name: str, inside: Pair) -> Pair:
        return self._joined([self._both(f"<{name}{self._rng.choice(ATTRIBUTES)}>"), inside, self._both(f"</{name}>")])

    def _words(self) -> Pair:
        words = " ".join(self._rng.choices(WORDS, k=self._rng.randint(1, 3)))
        return words, words.upper()

    @staticmethod
    def _both(part: str) -> Pair:
        return part, part

    @staticmethod
    def _joined(parts: Sequence[Pair]) -> Pair:
        return "".join(source for source, _ in parts), "".join(expected for _, expected in parts)


def answers(texts: Sequence[str], rules: TagRules = NO_RULES, *, backwards: bool = False) -> list[str]:
    requests = [replace(text_request(text, "de", "en", format="xml"), tags=rules) for text in texts]
    return [result.text for result in asyncio.run(Translator(WordEngine(backwards=backwards)).translate(requests))]


def nodes(text: str) -> tuple[Counter[tuple[str, ...]], list[bool]]:
    """How often each element, comment and instruction is there, with the elements around it; and, for the places
    between structural tags in order, whether there is text."""
    found: Counter[tuple[str, ...]] = Counter()
    path: list[str] = []
    words = [False]

    def start(name: str, attributes: dict[str, str]) -> None:
        path.append(f"{name} {attributes}")
        found[tuple(path)] += 1
        if name in STRUCTURE:
            words.append(False)

    def end(name: str) -> None:
        path.pop()
        if name in STRUCTURE:
            words.append(False)

    def text_of(data: str) -> None:
        words[-1] |= bool(data.strip())

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text_of
    parser.CommentHandler = lambda data: found.update([(*path, f"comment {data}")])
    parser.ProcessingInstructionHandler = lambda *what: found.update([(*path, f"instruction {what}")])
    parser.StartCdataSectionHandler = lambda: found.update([(*path, "CDATA")])
    parser.Parse(text.lstrip(), True)
    return found, words


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return [Document(seed) for seed in range(DOCUMENTS)]


def test_document_comes_back_with_each_text_in_its_place(documents: list[Document]) -> None:
    for document in documents:
        check_well_formed(document.source, "text")
    written = answers([document.source for document in documents])
    for document, answer in zip(documents, written, strict=True):
        assert answer.replace("Ä", "&#228;") == document.expected, document.source


def test_elements_and_texts_are_one_to_one_in_any_word_order(documents: list[Document]) -> None:
    written = answers([document.source for document in documents], backwards=True)
    for document, answer in zip(documents, written, strict=True):
        check_well_formed(answer, "text")
        assert nodes(answer) == nodes(document.source), (document.source, answer)
        words, expected = (re.findall(r"\w+", text) for text in (answer.replace("Ä", "&#228;"), document.expected))
        assert sorted(words) == sorted(expected)


def test_page_that_is_xml_is_read_as_xml(documents: list[Document]) -> None:
    for document in documents:
        if document.source.startswith("<?xml"):
            assert parse_page(document.source).texts == parse_xml(document.source).texts


PAGE = (
    "<doc><meta><title>Ein Titel</title></meta>"
    "<par>Ein Satz. Noch einer.</par><par>Ein <b>dritter</b> Satz.</par></doc>"
)
BROKEN = "<par>Die Firma hatte </par><par>eine Untersuchung begonnen.</par>"


@pytest.mark.parametrize(
    ("source", "rules", "texts"),
    [
        # https://developers.deepl.com/docs/translate/translating-xml
        (PAGE, NO_RULES, ["Ein Titel", "Ein Satz. Noch einer.", "Ein dritter Satz."]),
        (
            PAGE,
            TagRules(splitting=frozenset({"par", "title"}), outline=False),
            ["Ein Titel", "Ein Satz. Noch einer.", "Ein dritter Satz."],
        ),
        (
            f"{BROKEN} <par>Noch nicht.</par>",
            TagRules(outline=False),
            ["Die Firma hatte eine Untersuchung begonnen. Noch nicht."],
        ),
        (BROKEN, NO_RULES, ["Die Firma hatte ", "eine Untersuchung begonnen."]),
        (BROKEN, TagRules(non_splitting=frozenset({"par"})), ["Die Firma hatte eine Untersuchung begonnen."]),
        ("Ein <b>Mann</b> steht", TagRules(splitting=frozenset({"b"})), ["Ein ", "Mann", " steht"]),
        ("<p>Eins<br/>Zwei</p>", TagRules(outline=False), ["Eins Zwei"]),
        ("<p>Eins<br/>Zwei</p>", TagRules(non_splitting=frozenset({"br"})), ["Eins Zwei"]),
        ("Das ist <n>Bier</n> hier", TagRules(ignored=frozenset({"n"})), ["Das ist Bier hier"]),
        ("<doc><n>Bier</n><m>Wein</m></doc>", TagRules(ignored=frozenset({"n"})), ["Wein"]),
        ("<doc><N>Bier</N><n>Wein</n></doc>", TagRules(ignored=frozenset({"n"})), ["Bier"]),
        # elements among elements alone, beside text
        (
            "<doc>Text <table><row><cell>Ein</cell><cell>Zwei</cell></row></table> Ende</doc>",
            NO_RULES,
            ["Text ", "Ein", "Zwei", " Ende"],
        ),
        ("<p>ein <g><x>roter</x></g> Ball</p>", NO_RULES, ["ein roter Ball"]),
        ("<p>ein <g><b>roter</b> <i>Ball</i></g> da</p>", NO_RULES, ["ein roter Ball da"]),
    ],
)
def test_texts_are_divided_as_the_client_says(source: str, rules: TagRules, texts: list[str]) -> None:
    page = parse_xml(source, rules)
    assert page.texts == texts
    assert "".join(page.pieces([same(text) for text in page.texts])) == source


LINES = ("guten tag", "ein mann,", "der dort steht", "- ein bier", "", "  zwei wasser", "ende.")
PLACEHOLDERS = (
    '<x id="1"></x>',
    "<x id='2'/>",
    "<g1>rot</g1>",
    '<ph type="a">%s</ph>',
    "<x translate='no'>{n}</x>",
    "<t0/>",
)


@pytest.mark.every_value
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("seed", range(24))
def test_lines_of_strings_with_placeholders_stay(seed: int, end: str) -> None:
    """As Weblate, Tolgee, OmegaT and DeepL's own clients send them: ignore_tags=x."""
    rng = random.Random(seed)
    lines = [rng.choice(LINES) for _ in range(rng.randint(2, 6))]
    for _ in range(2):
        number = rng.randrange(len(lines))
        lines[number] += (" " if lines[number] else "") + rng.choice(PLACEHOLDERS)
    source = end.join(lines) + rng.choice(("", end))
    rules = TagRules(ignored=frozenset({"x", "ph"}))
    kept = r"(<x[^>]*>(?:[^<]*</x>)?|<ph.*?</ph>|<[^<>]*>)"
    parts = re.split(kept, source)
    expected = "".join(part if number % 2 else part.upper() for number, part in enumerate(parts))
    assert answers([source], rules) == [expected]
    (backwards,) = answers([source], rules, backwards=True)
    assert [line.count("<") for line in backwards.split(end)] == [line.count("<") for line in source.split(end)]
