"""Texts of many scripts and of what people paste by accident, always the same ones."""

from __future__ import annotations

import random

from tests.training.importers.marian import folders

RANGES = (  # first and last code points
    *((0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x2AF), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x530, 0x58F)),
    *((0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x10A0, 0x10FF), (0x1100, 0x11FF)),
    *((0x1E00, 0x1EFF), (0x2000, 0x206F), (0x20A0, 0x20CF), (0x2150, 0x218F), (0x2580, 0x259F), (0x3000, 0x30FF)),
    *((0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFB4F), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF)),
    *((0x1D400, 0x1D4FF), (0x1F1E6, 0x1F1FF), (0x1F300, 0x1F6FF), (0x20000, 0x200FF), (0xE0100, 0xE010F)),
)
CONTROLS = "\x00\x01\x07\t\n\x0b\x0c\r\x1b\x1f\x7f\x85\xad\u200b\u200d\u200e\u2028\u2029\u202e\ufeff\ufffd\ufffe"
BLANKS = " \t\n\r\u00a0\u1680\u2003\u2009\u202f\u205f\u3000"
SPELT = ("</s>", "<unk>", "<pad>", "<s>", "<0x41>", "▁", "▁▁", "<", "</s", "<pa<pad>", "⁇")
CODES = (">>deu<<", ">>fra<<", ">>xyz<<", ">><<", ">>", "<<", ">> deu <<", ">>>deu<<", ">>deu<", ">>a</s>b<<")
MIXED = (
    *("café", "cafe\u0301", "ﬁne", "①②", "½", "中文。", "ｆｕｌｌ", "한국어", "हिन्दी", "ไทย", "العربية", "עברית"),
    *("👩\u200d👩\u200d👧", "🇩🇪", "e\ufe0f"),
)


def texts(count: int = 1000, seed: int = 7) -> list[str]:
    draw = random.Random(seed)
    alone = ["", " ", *SPELT, *CODES, *MIXED]
    return [*alone, *(_text(draw) for _ in range(count - len(alone)))]


def _text(draw: random.Random) -> str:
    kinds = (_phrase, _phrase, _script, _script, _controls, _blanks, _spelt, _mixed)
    parts = [draw.choice(kinds)(draw) for _ in range(draw.randint(1, 5))]
    code = draw.choice(CODES) if draw.random() < 0.25 else ""
    return code + draw.choice(["", " ", "  "]).join(parts)


def _phrase(draw: random.Random) -> str:
    line = draw.choice(folders.lines(draw.choice(["de", "en", "es", "zh"])))
    return draw.choice([line, line.upper(), line.capitalize() + ".", line[: draw.randint(0, len(line))]])


def _script(draw: random.Random) -> str:
    first, last = draw.choice(RANGES)
    return "".join(chr(draw.randint(first, last)) for _ in range(draw.randint(1, 8)))


def _controls(draw: random.Random) -> str:
    return "".join(draw.choice(CONTROLS + "ab") for _ in range(draw.randint(1, 6)))


def _blanks(draw: random.Random) -> str:
    return "".join(draw.choice(BLANKS + "x") for _ in range(draw.randint(1, 6)))


def _spelt(draw: random.Random) -> str:
    return draw.choice([*SPELT, *CODES])


def _mixed(draw: random.Random) -> str:
    return draw.choice(MIXED)
