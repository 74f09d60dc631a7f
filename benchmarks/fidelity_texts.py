"""Made-up pages and layouts around real sentences, and what of them a translation must not change."""

from __future__ import annotations

import html
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser

_INLINE = ("b", "i", "em", "strong", "a", "span", "u", "mark")
_BLOCKS = ("p", "h1", "h2", "li", "td", "blockquote", "div")
_AROUND = {"li": ("ul", "ol"), "td": ("table><tr", "table><tbody><tr")}
_ATTRIBUTES = ("", ' class="x y"', " id=a1", ' title="A > B &amp; C"', " data-x='{\"k\": 1}'", ' href="/a?b=1&amp;c=2"')
_SIDE = (
    '<script>if (a < b) { document.write("<p>no</p>"); }</script>',
    "<style>p > a { color: red }</style>",
    "<!-- a comment with <b>tags</b> -->",
    "<pre><code>for x in y:\n    print(x &lt; 3)</code></pre>",
    '<div translate="no">Ein <i>Name</i></div>',
    "<hr/>",
    '<img src="a.png" alt="Bild">',
)
_VOID = frozenset({"img", "hr", "br", "input", "meta", "link", "wbr"})


class Page:
    """source: the page. plain: its texts, block by block; None for a page with code within a sentence, because its
    plain translation would be that of another text."""

    def __init__(self, rng: random.Random, sentences: Iterator[str]) -> None:
        self.plain: list[str | None] = []
        self._rng, self._sentences = rng, sentences
        blocks = "\n".join(self._block(0) for _ in range(rng.randint(2, 5)))
        head = "<!DOCTYPE html>\n<html><head><meta charset=utf-8></head><body>\n"
        self.source = f"{head}{blocks}\n</body></html>\n" if rng.random() < 0.3 else blocks

    def _block(self, depth: int) -> str:
        kind = self._rng.random()
        if kind < 0.2:
            return self._rng.choice(_SIDE)
        if kind < 0.4 and depth < 3:
            inside = "".join(f"\n  {self._block(depth + 1)}" for _ in range(self._rng.randint(1, 3)))
            return f"<section{self._attribute()}>{inside}\n</section>"
        name = self._rng.choice(_BLOCKS)
        sentence = " ".join(next(self._sentences).split())
        with_code = self._rng.random() < 0.1
        self.plain.append(None if with_code else sentence)
        code = " <code>f(x) &lt; 1</code>" if with_code else ""
        written = f"<{name}{self._attribute()}>{self._tagged(sentence)}{code}</{name}>"
        around = self._rng.choice(_AROUND.get(name, ("",)))
        ends = "".join(f"</{each}>" for each in reversed(around.split("><"))) if around else ""
        return f"<{around}>{written}{ends}" if around else written

    def _tagged(self, sentence: str) -> str:
        """Some stretches of words within inline tags, these within each other; a comment or an image between words."""
        words = [html.escape(word, quote=self._rng.random() < 0.5) for word in sentence.split(" ")]
        return self._stretch(words, 0)

    def _stretch(self, words: Sequence[str], depth: int) -> str:
        out: list[str] = []
        place = 0
        while place < len(words):
            taken = min(len(words) - place, self._rng.randint(1, 4))
            part = words[place : place + taken]
            if depth < 3 and self._rng.random() < 0.3:
                name = self._rng.choice(_INLINE)
                out.append(f"<{name}{self._attribute()}>{self._stretch(part, depth + 1)}</{name}>")
            else:
                out.append(" ".join(part))
            if self._rng.random() < 0.05:
                out.append(self._rng.choice(("<!-- here -->", "<img src=b.png>")))
            place += taken
        return " ".join(out)

    def _attribute(self) -> str:
        return self._rng.choice(_ATTRIBUTES)


class _Seen(HTMLParser):
    """What a page shows and how it is nested, read by another parser than the one that is measured."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.ways: Counter[tuple[str, ...]] = Counter()  # from the root to each tag and comment
        self.texts: list[str] = [""]
        self._stack: list[tuple[str, str]] = []  # name, whole tag
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: Sequence[object]) -> None:
        raw = self.get_starttag_text() or ""
        self._way(raw)
        if tag not in _VOID:
            self._stack.append((tag, raw))
            self._hidden += _is_hidden(tag, raw)
        self._part(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[object]) -> None:
        self._way(self.get_starttag_text() or "")
        self._part(tag)

    def handle_endtag(self, tag: str) -> None:
        name, raw = self._stack.pop() if self._stack else ("", "")
        self._hidden -= _is_hidden(name, raw)
        self._way(f"/{tag}" if name == tag else f"/{tag} for {name}")
        self._part(tag)

    def handle_comment(self, data: str) -> None:
        self._way(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._way(f"<!{decl}>")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.texts[-1] += data
        elif data.strip():
            self._way(data)  # untranslatable content is returned unchanged

    def _way(self, last: str) -> None:
        self.ways[(*(raw for _, raw in self._stack), last)] += 1

    def _part(self, tag: str) -> None:
        if tag not in (*_INLINE, "img", "code"):  # code within a sentence: what follows it is of the same block
            self.texts.append("")


def _is_hidden(tag: str, raw: str) -> bool:
    return tag in ("script", "style", "pre", "code") or "translate" in raw


def structure_of(page: str) -> tuple[Counter[tuple[str, ...]], list[str]]:
    """The nesting: path from the root to each tag, comment and hidden text -> how often it occurs; and the stripped
    texts between blocks."""
    parser = _Seen()
    parser.feed(page)
    parser.close()
    return parser.ways, [text.strip() for text in parser.texts if text.strip()]


_BREAKS = (
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "\n\t\t",
    "\n    ",
    "  ",
    "   ",
    "\u3000",
    "\n\u00a0\n",
    "\n- ",
    "\n1. ",
    " \n",
    "\u2028",
)
_EMOJI = ("😀", "👍🏽", "👨‍👩‍👧", "🇩🇪", "❤️", "1️⃣", "✅", "🎉🎉", "→", "☺")
_OTHERS = (
    "你好，世界。",
    "Привет, мир!",
    "مرحبا بالعالم",
    "こんにちは",
    "สวัสดี",
    "Γειά σου",
    "नमस्ते",
    "12,50 €",
    "https://x.org/a?b=c",
)


def layout_text(rng: random.Random, sentences: Sequence[str]) -> str:
    """Sentences, other scripts and emoji, with line ends, tabs and spaces of many kinds between them."""
    out = [rng.choice(("", "", *_BREAKS))]
    for _ in range(rng.randint(1, 6)):
        kind = rng.random()
        if kind < 0.7:
            out.append(rng.choice(sentences).strip())
        else:
            out.append(rng.choice(_EMOJI if kind < 0.88 else _OTHERS))
        out.append(rng.choice((" ", " ", *_BREAKS)))
    return "".join(out[:-1]) + rng.choice(("", "", *_BREAKS))


def layout(text: str) -> tuple[list[str], Counter[str]]:
    """Every run of whitespace but the single space between words, with its place among the others; how often each
    emoji stands there. Both have to be the same in the translation."""
    runs = [found[0] for found in re.finditer(r"\s+", text) if found[0] != " " or found.end() in (len(text), 1)]
    emoji = Counter(each for each in text if unicodedata.category(each) in ("So", "Sk", "Sm") or each in "\u200d\ufe0f")
    return runs, emoji
