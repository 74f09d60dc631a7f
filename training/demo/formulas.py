"""The fixed phrases of the phrasebook, and greetings that are followed by a name, a city or the world."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from training.demo import chinese, english, german, spanish
from training.demo.nouns import Noun, of_kind
from training.demo.trees import Couple, Formula, Word, word

# The digits behind a word are the nodes that it expresses; words of two languages with a common digit are aligned.
_GREETINGS = """
hallo1 | hello1 | hola1 | 你好1
guten1 morgen2 | good1 morning2 | buenos1 días2 | 早上2 好1
guten1 abend2 | good1 evening2 | buenas1 tardes2 | 晚上2 好1
gute1 nacht2 | good1 night2 | buenas1 noches2 | 晚安12
auf1 wiedersehen1 | goodbye1 | adiós1 | 再见1
danke1 | thank1 you1 | gracias1 | 谢谢1
vielen1 dank2 | many1 thanks2 | muchas1 gracias2 | 非常1 感谢2
entschuldigung1 | sorry1 | perdón1 | 对不起1
bis1 morgen2 | see1 you1 tomorrow2 | hasta1 mañana2 | 明天2 见1
bis1 bald2 | see1 you1 soon2 | hasta1 pronto2 | 回头2 见1
"""
_FIXED = """
wie1 geht2 es2 dir3 | how1 are2 you3 | cómo1 estás23 | 你3 好12 吗1
wie1 heißt2 du3 | what1 is2 your3 name2 | cómo1 te3 llamas23 | 你3 叫2 什么1 名字2
viel1 glück2 | good1 luck2 | buena1 suerte2 | 祝1 你1 好运2
guten1 appetit1 | enjoy1 your1 meal1 | buen1 provecho1 | 请1 慢用1
kein1 problem2 | no1 problem2 | no1 hay1 problema2 | 没1 问题2
ich1 weiß2 es2 nicht3 | i1 do2 not3 know2 | no3 lo2 sé12 | 我1 不3 知道2
was1 kostet2 das3 | how1 much1 does2 that3 cost2 | cuánto1 cuesta2 eso3 | 那3 个3 多少1 钱2
ich1 komme2 aus3 deutschland4 | i1 come2 from3 germany4 | vengo12 de3 alemania4 | 我1 来2 自3 德国4
ja1 bitte2 | yes1 please2 | sí1 por2 favor2 | 好的1 谢谢2
nein1 danke2 | no1 thank2 you2 | no1 gracias2 | 不用1 谢谢2
"""


def _line(cell: str) -> tuple[Word, ...]:
    line = []
    for token in cell.split():
        text = token.rstrip("0123456789")
        line.append(word(text, *(f"formula.{digit}" for digit in token[len(text) :])))
    return tuple(line)


def _read(table: str) -> dict[str, tuple[tuple[Word, ...], ...]]:
    rows = [tuple(_line(cell) for cell in row.split("|")) for row in table.strip().splitlines()]
    return {" ".join(part.text for part in row[1]): row for row in rows}


_GREETING_LINES, _FIXED_LINES = _read(_GREETINGS), _read(_FIXED)
_LINES = _GREETING_LINES | _FIXED_LINES
_COUPLES: tuple[Callable[[Couple], list[Word]], ...] = (
    german.couple,
    english.couple,
    spanish.couple,
    chinese.couple,
)


def linearised(tree: Formula, language: int) -> list[Word]:
    """The phrase in the language of this number, and the addressee after it."""
    line = list(_LINES[tree.phrase][language])
    addressee = tree.addressee
    if addressee is None:
        return line
    if isinstance(addressee, Couple):
        return line + _COUPLES[language](addressee)
    names = (addressee.german[0], addressee.english[0], addressee.spanish[0], addressee.chinese)
    return [*line, word(names[language], "subject.noun")]


def fixed() -> Iterator[Formula]:
    """The phrases that every translator is trained on: those without an addressee, and to the world."""
    yield from (Formula(phrase) for phrase in _LINES)
    yield from (Formula(phrase, of_kind("world")[0]) for phrase in _GREETING_LINES)


def greetings() -> Iterator[Formula]:
    """Each greeting to each name, city and couple of names."""
    names = of_kind("name")
    couples = [Couple(first, second) for first in names for second in names if first is not second]
    addressees: list[Noun | Couple] = [*names, *of_kind("city"), *couples]
    for phrase in _GREETING_LINES:
        yield from (Formula(phrase, addressee) for addressee in addressees)
