from __future__ import annotations

import re
import time
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.text.html_page import page_sections, parse_page
from app.text.html_passages import tokenize_page
from app.text.page_parser import passage_html
from app.text.tag_placement import AlignedSpan
from tests.app.text.scripted_translation import at_random, backwards, same, translated

PAGE = """\
<!DOCTYPE html>\r
<html lang=de><head><meta charset="utf-8"><title>Fish &amp; chips</title>
<style>p > a { color: red }</style><script>if (a < b) document.write("<p>no</p>")</script></head>
<body class='a>b'>
  <!-- a <b>comment</b> -->
  <p id=1>Hello <b>big <i title="not this">wide</i></b> world!
  <P>No end tag<br/>and&nbsp;more<img src=x alt="left">
  <ul><li>One<li>Two <span>three</span></ul>
  <pre>  kept
\tas it is</pre><textarea> left alone </textarea>
</body></html>
"""


def test_unchanged_texts_give_the_page_back() -> None:
    assert translated(PAGE) == PAGE


def test_texts_of_a_full_page() -> None:
    assert parse_page(PAGE).texts == [
        "Fish & chips",
        "Hello big wide world!",
        "No end tag",
        "and\xa0more",
        "One",
        "Two three",
        "  kept\n\tas it is",
    ]


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("<p>a\n   b <b> c</b></p>", ["a b c"]),
        ("1 &lt; 2 &#x1F600; &copy;", ["1 < 2 😀 ©"]),
        ("<td>a<td>b", ["a", "b"]),
        ("<label>Name</label><input><button>Send</button><button>Cancel</button>", ["Name", "Send", "Cancel"]),
        ("<p translate=no>a <b>b</b></p><p>c</p>", ["c"]),
        ('<p class="x notranslate">a<p>b', ["b"]),
        ("<p>press <kbd>Enter</kbd> now</p>", ["press Enter now"]),
        ("<p>call <code>f(x)</code> and <code>g(x)</code></p>", ["call {1} and {2}"]),
        ("<p>Tag<code>x</code> und <code>y</code></p>", ["Tag{1} und y"]),  # no word Tagx
        ("<p>an <code>unclosed one</p><p>b</p>", ["an unclosed one", "b"]),
        ("<p><code>alone</code></p>", []),
        ("a <svg><text>b</text></svg> c", ["a c"]),
        ("a <svg/> b", ["a b"]),
        ("<p>&nbsp; <b> </b></p>", []),
        ("<my-word>a</my-word> b", ["a b"]),
        ("", []),
        ("a <b", ["a"]),
        ("a b <!-- c", ["a b"]),
        ("a b <script>c", ["a b"]),
        ("a b <code>c <script>", ["a b"]),
    ],
)
def test_texts_of_fragments(page: str, texts: list[str]) -> None:
    assert parse_page(page).texts == texts
    assert translated(page) == page.replace("a\n   b", "a b").replace("&#x1F600; &copy;", "😀 ©")


def test_text_is_escaped_as_it_was() -> None:
    assert translated("<p>AT&T &quot;a&quot; &lt;b&gt; c > d</p>") == '<p>AT&amp;T "a" &lt;b> c > d</p>'
    assert translated("<p>&lt;b&gt;</p>") == "<p>&lt;b&gt;</p>"
    assert translated("<p>a&nbsp;b</p>") == "<p>a&nbsp;b</p>"
    assert translated("<p>a\xa0b</p>") == "<p>a\xa0b</p>"


@pytest.mark.parametrize(
    "piece",
    ["<", "<a ", "<!--", "</", "<![CDATA[", "<a b='", "&", "<b>", "<b>x ", "</b>x ", "<b>x</b> ", "<code>x</code> y ",
     "<code>x", "<p translate=no>a", "<i><b>x </b></i>", "<?php ", "<% ", "<?= x ?>", "x<5 ", "x<n ", "<n und n>",
     "H<sub>2</sub>O ", "H<sub>2</sub>", "<sup>1</sup>", "<sup><a>1", "Wort<a>1</a> ",
     "x<img>y "],
)  # fmt: skip
def test_time_is_linear_in_the_length_of_the_page(piece: str) -> None:
    """Ten times the length may take no more than 40 times the time, of the better of two tries."""

    def seconds(length: int) -> float:
        page = (piece * length)[:length]
        times = []
        for _ in range(2):
            begin = time.process_time()
            translated(page)
            times.append(time.process_time() - begin)
        return min(times)

    assert seconds(10_000) < 40 * max(seconds(1_000), 0.001)


NAMES = ["b", "i", "a", "span", "em", "p", "div", "li"]
WORDS = st.text("abc äöü&<>\n", max_size=8).map(lambda text: text.replace("&", "&amp;").replace("<", "&lt;"))
NESTED = st.recursive(
    st.one_of(WORDS, st.sampled_from(["<br>", "<img alt='x>y'>", "<!-- <b> -->", "<code>f(x)</code>", "&nbsp;"])),
    lambda inner: st.builds(
        lambda name, parts: f"<{name} id=1>{''.join(parts)}</{name}>",
        st.sampled_from(NAMES),
        st.lists(inner, max_size=4),
    ),
    max_leaves=24,
)


def nesting(page: str) -> Counter[tuple[str, ...]]:
    """The path from the root to each tag -> how often it occurs."""
    ways: Counter[tuple[str, ...]] = Counter()
    stack: list[str] = []
    for token in tokenize_page(page):
        if token.kind == "start":
            ways[(*stack, token.raw)] += 1
            if token.tag not in ("br", "img"):
                stack.append(token.raw)
        elif token.kind == "end":
            assert stack.pop().startswith(f"<{token.tag}"), page
        elif token.kind == "comment":
            ways[(*stack, token.raw)] += 1
    assert not stack
    return ways


@settings(max_examples=24, deadline=None)
@given(NESTED, st.integers())
def test_nesting_of_tags_survives_any_word_order(page: str, seed: int) -> None:
    for how in (same, backwards, at_random(seed), lambda text: (text.upper(), None), lambda text: ("", None)):
        assert nesting(translated(page, how)) == nesting(page)


@settings(deadline=None)
@example("</></p>")
@example("</></>a")
@given(st.text("<>/!-?&;='\" \r\nabip&#x", max_size=60))
def test_malformed_html_keeps_its_tags(page: str) -> None:
    assert "".join(token.raw for token in tokenize_page(page)) == page
    for how in (same, backwards):
        out = translated(page, how)
        tags = [token.raw for token in tokenize_page(page) if token.kind in ("start", "end", "comment", "rest")]
        assert all(out.count(tag) >= tags.count(tag) for tag in tags)


def test_an_end_tag_without_a_name_stays_in_its_section() -> None:
    page = "</></p>a"
    sections = list(page_sections(page, 1))
    assert "".join(sections) == page
    assert [text for section in sections for text in parse_page(section).texts] == ["a"]
    assert translated(page, same) == page


PIECES = re.split(
    " +",
    "<b> </b> <i> </i> <a_href=x> </a> <p> </p> <br> <img> <!--_c_--> <code> </code> <code>x_y</code> <code>f()</code> "
    "_ \n word_ a. &amp; &nbsp; <span_translate=no> </span> <pre> </pre> <div> </div> <li> <script> </script> {1} x",
)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30), st.integers())
def test_misnested_tags_survive_any_alignment(pieces: list[str], seed: int) -> None:
    page = "".join(pieces).replace("_", " ")

    def tags(of: str) -> Counter[str]:
        return Counter(
            html_token.raw for html_token in tokenize_page(of) if html_token.kind in ("start", "end", "comment")
        )

    assert tags(translated(page, at_random(seed))) == tags(page)


def test_link_around_an_address_keeps_it_wherever_the_words_stand() -> None:
    (passage,) = [
        part for part in parse_page('Mail <a href="m:a@b.de">a@b.de</a> now').parts if not isinstance(part, str)
    ]
    alignment = [AlignedSpan(0, 3, 0, 4), AlignedSpan(4, 7, 12, 15)]  # nothing is aligned with the address
    assert passage_html(passage, "NOW MAIL a@b.de", alignment) == 'NOW MAIL <a href="m:a@b.de">a@b.de</a>'


@pytest.mark.parametrize(
    "page",
    [
        "<li><b>42 <code>f(x)</code></b></li>",
        "<a><code>a=1</code> 12:30</a>",
        "<p><b><i><code>x = 1</code></i> &lt;x&gt;</b> 7</p>",
        "<p>see <a><code>a=1</code> 3 <code>b=2</code></a></p>",
    ],
)
def test_numbers_and_signs_beside_code_in_one_element_stay(page: str) -> None:
    """An element without words was one word, which the code inside it replaced."""
    parsed = parse_page(page)
    assert "".join(parsed.pieces([(text, None) for text in parsed.texts])) == page
