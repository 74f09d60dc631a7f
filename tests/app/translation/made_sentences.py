"""Generated sentences with islands: chunks that a translation has to keep to the character.

An island is a chunk between spaces that holds something else than letters, inner hyphens and apostrophes, and the
ordinary punctuation of a sentence at its edges; or an identifier in camel case, or a word of a foreign script. No
syntax of a template is taken from a list that the translator could have: brackets and signs are drawn at random."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from dataclasses import dataclass


def vocabulary(pairs: str) -> dict[str, str]:
    """Word -> translation, of "word:translation word:translation"."""
    return dict(pair.split(":") for pair in pairs.split())


WORDS: dict[tuple[str, str], dict[str, str]] = {
    ("de", "en"): vocabulary(
        "der:the hund:dog katze:cat sieht:sees heute:today garten:garden läuft:runs kleine:little große:big "
        "mutter:mother kauft:buys brot:bread morgen:tomorrow straße:street und:and oder:or mit:with unter:under "
        "schöner:beautiful abend:evening liest:reads buch:book lehrer:teacher fährt:drives nach:to hause:home"
    ),
    ("en", "es"): vocabulary(
        "the:el dog:perro cat:gato sees:ve today:hoy garden:jardín runs:corre little:pequeño big:grande "
        "mother:madre buys:compra bread:pan tomorrow:mañana street:calle and:y with:con under:bajo evening:tarde "
        "reads:lee book:libro teacher:maestro drives:conduce home:casa always:siempre never:nunca water:agua"
    ),
    ("es", "en"): vocabulary(
        "el:the perro:dog gato:cat ve:sees hoy:today jardín:garden corre:runs pequeño:little grande:big "
        "madre:mother compra:buys pan:bread mañana:tomorrow calle:street y:and con:with bajo:under tarde:evening "
        "lee:reads libro:book maestro:teacher conduce:drives casa:home siempre:always nunca:never agua:water"
    ),
    ("ru", "de"): vocabulary(
        "собака:hund кошка:katze видит:sieht сегодня:heute сад:garten бежит:läuft маленький:kleine большой:große "
        "мать:mutter покупает:kauft хлеб:brot завтра:morgen улица:straße и:und или:oder под:unter "
        "красивый:schöner вечер:abend читает:liest книга:buch учитель:lehrer едет:fährt дома:zuhause всегда:immer "
        "никогда:nie"
    ),
    ("zh", "en"): vocabulary(
        "我们:we 今天:today 小狗:dog 小猫:cat 看见:see 花园:garden 跑步:run 妈妈:mother 买:buy 面包:bread "
        "明天:tomorrow 街道:street 晚上:evening 读书:read 老师:teacher 开车:drive "
        "回家:home 总是:always 喝水:drink 喜欢:like"
    ),
}
NAMES = (
    *("name", "count", "user.name", "item_id", "n", "city2", "größe", "имя", "x", "last_login", "名", "total"),
    *("hund", "Buch", "dog", "today", "gato", "собака", "小狗"),  # which a model would translate
)
FOREIGN = {
    "Hani": ("北京", "咖啡", "東京", "学校", "朋友"),
    "Hira": ("ひらがな", "さくら", "カタカナ", "ありがとう"),
    "Hang": ("서울", "안녕", "학교"),
    "Arab": ("سلام", "كتاب", "مدينة"),
    "Hebr": ("שלום", "ספר"),
    "Deva": ("नमस्ते", "किताब"),
    "Thai": ("สวัสดี", "กรุงเทพ"),
    "Geor": ("თბილისი", "წიგნი"),
    "Grek": ("Αθήνα", "βιβλίο"),
    "Cyrl": ("Москва", "привет", "книга"),
}
OWN_SCRIPTS = {"ru": ("Cyrl",), "zh": ("Hani", "Hira")}
PICTURES = "→←↔⇒★☆♪♯✓✗■□◆●▲✦⌘⏎"
ORDINARY = ".,;!?…\"'“”„‚‘’«»()[]-–—"  # at the edges of a chunk
SIGNS = "#$%&*+/<=>@\\^_`{|}~"
RARE_SIGNS = "§¶†‡※¤⟦⟧⟨⟩∆∑√∞≠≤≥⊕→←↔⇒★☆♪♯✓✗■□◆●▲✦⌘⏎№℃¬¦‖⸨⸩⦃⦄"
LETTERS = (
    string.ascii_letters + "äöüßéñçşłøÆ" + "жщыЯЮ" + "λΩπ" + "字中国語" + "ひカ" + "한글" + "سلم" + "שלם" + "กข" + "ქვ"
)
BRACKETS = (*(("<", ">"), ("{", "}"), ("⟦", "⟧"), ("⟨", "⟩"), ("⦃", "⦄"), ("⸨", "⸩")), ("(", ")"), ("[", "]"))
# Words with ordinary punctuation, with emphasis, with a footnote's sign, or with the mark of an accelerator: &Datei.
WORDS_IN_MARKS = re.compile(
    r"[*_~|`=+]+[(\[]?\w+[)\]]?[*_~|`=+]+|>?\w{0,3}[&_~>]\w+|\w+(?:[&_]|\\\\[*_~`#|])|[^\W\d_]{2,}[*†‡]|[^\W\d_]+(?:[-'’`][^\W\d_]+)*"
)
# A picture beside a word is no part of it: ★Hund, Danke✓. The picture comes back, the word is translated.
_WORD = "(?:[a-zA-ZÀ-ɏ][a-zß-ɏ`]*|[A-ZÀ-Þ]+[a-zß-ɏ]*|[А-я][а-я]*)"
PICTURES_BESIDE_WORDS = re.compile(
    rf"([{PICTURES}]*)(?:[a-zA-Z]+=)?[.!?:()\[\]>-]*(?:{_WORD}(?:-{_WORD})*)[.!?:()\[\]-]*([{PICTURES}]*)"
)
# A language without spaces has words beside signs, which are translated: its characters are in islands only where signs
# enclose them.
NO_WORDS = {"zh": str.maketrans("字中国語", "ひカ한글")}


@dataclass(frozen=True, slots=True)
class Sentence:
    """text: with its islands. islands: each as often as it was put in. words: the translations of its words."""

    text: str
    islands: tuple[str, ...]
    words: tuple[str, ...]

    def lost_from(self, translation: str) -> list[str]:
        """The islands that the translation has more or fewer times than the source."""
        return [island for island in self.islands if translation.count(island) != self.text.count(island)]

    def words_lost_from(self, translation: str) -> list[str]:
        lowered = translation.lower()
        return [word for word in self.words if word not in lowered]


def _of(rng: random.Random, characters: str, least: int, most: int) -> str:
    return "".join(rng.choice(characters) for _ in range(rng.randint(least, most)))


def template(rng: random.Random) -> str:
    """`<~x~>`, `@@name@@`, `⟦3⟧`, `$!{x}`, `(:name:)`, `%{a|b}%` and others of their making."""
    name = rng.choice((*NAMES, str(rng.randint(0, 99)), f"{rng.choice(NAMES)}|{rng.choice(NAMES)}"))
    opening, closing = rng.choice(BRACKETS)
    if rng.random() < 0.15:
        sign = rng.choice("#^/>&%=")
        opening, closing = rng.choice((("{{", "}}"), ("{%", "%}"), ("<%", "%>"), ("<?", "?>"), ("${{", "}}")))
        return opening + rng.choice((f"{sign}if {name} ", f" {name} ", f"{sign} {name} {sign}")) + closing
    signs = _of(rng, "~@%$#^:" if opening in "([" else "~@%$#^:|=&", 1, 2)
    inner = rng.choice(("", "", "!", "?"))
    times = rng.randint(1, 3)
    made = (
        f"{opening * times}{signs}{inner}{name}{inner}{signs[::-1]}{closing * times}",
        f"{opening}{inner}{signs}{name}{closing}",
        f"{signs}{opening * times}{name}{closing * times}",
        f"{signs}{opening}{name}{closing}{signs}",
        f"{2 * signs}{name}{2 * signs}",
        f"{signs}{inner}{name}{inner}{signs}",
    )
    return rng.choice(made)


def identifier(rng: random.Random) -> str:
    one, two = rng.sample(("user", "wert", "last", "Login", "katze", "item", "Größe", "zahl"), 2)
    number = rng.randint(2, 99)
    made = (
        f"{one.lower()}_{two.lower()}",
        f"{one.lower()}{two.capitalize()}Id",
        f"{one.lower()}-{two.lower()}-{number}",
        f"{one.upper()}_{two.upper()}_{number}",
        f"{one.lower()}::{two.lower()}",
        f"{one.lower()}.{two.lower()}()",
        f"{one.lower()}[{number}]",
        f"__{one.lower()}_{two.lower()}__",
    )
    return rng.choice(made)


def path(rng: random.Random) -> str:
    one, two, three = (rng.choice(("akten", "src", "Übersicht", "haus", "bilder", "v2", "データ")) for _ in range(3))
    made = (
        f"/{one}/{two}.{rng.choice(('pdf', 'xyz', 'tar.zst', 'blend'))}",
        f"{one}/{two}/{three}/",
        f"C:\\{one}\\{two}",
        f"\\\\{one}\\{two}",
        f"~/{one}/*.{two}",
        f"../{one}/{two}",
        f"{rng.choice(('https', 'ssh', 's3', 'gopher', 'app'))}://{one}.example/{two}?{three}={rng.randint(1, 99)}",
        f"{one}.{rng.choice(('de', 'it', 'museum', 'рф'))}/{two}",
    )
    return rng.choice(made)


def code(rng: random.Random) -> str:
    """A hash, a version, an equation, a number with its sign."""
    made = (
        _of(rng, "0123456789abcdef", 5, 30) + "0f",
        f"v{rng.randint(0, 9)}.{rng.randint(0, 99)}-{rng.choice(('rc1', 'β2', 'dev'))}",
        f"{rng.choice('abxy')}{rng.choice('+*/^')}{rng.choice('abxy')}={rng.randint(13, 99)}",
        f"{rng.randint(13, 99)}{rng.choice(('%', '°', '€', 'kg', '×4', '/7', '+'))}",
        f"{rng.choice(('$', '+', '-', '±', '~', '№', '#'))}{rng.randint(13, 999)}",
        f"0x{_of(rng, '0123456789ABCDEF', 2, 8)}",
        f"{_of(rng, string.ascii_uppercase, 1, 3)}{rng.randint(13, 9999)}{_of(rng, string.ascii_uppercase, 0, 2)}",
    )
    return rng.choice(made)


def address(rng: random.Random) -> str:
    name = rng.choice(("anna_92", "peter.w", "клара", "zoë-x", "a"))
    number = rng.randint(10**9, 10**12)
    made = (
        f"{name}@{rng.choice(('firma', 'beispiel'))}.{rng.choice(('es', 'example', 'рф'))}",
        f"@{name}_7",
        f"#{name}_{number % 100}",
        f"<@&{number}>",
        f"<:{rng.choice(('katze', 'hund'))}:{number}>",
        f"u/{name}7",
        f"+{name}+{number % 1000}",
    )
    return rng.choice(made)


def escape(rng: random.Random) -> str:
    return rng.choice(("\\n", "\\t", "\\r\\n", "\\n\\n%s", "\\x1b[0m", "\\e[1;31m", "^M", "%0A", "\\0", "${\\n}"))


def amount(rng: random.Random) -> str:
    """A number with a unit after a space. The number alone is the island: a unit may have a name of its own."""
    return f"{rng.randint(13, 999)} {rng.choice(('kg', 'ml', '€', '%', '°C', 'km/h', 'px', 'GiB', '₿', 'Nm'))}"


def scribble(rng: random.Random) -> str:
    """Signs, rare signs and letters of any script in any order."""
    while True:
        inner = _of(rng, LETTERS + SIGNS + RARE_SIGNS + string.digits + "-.:!?()[]", 0, 9)
        edges = LETTERS + SIGNS + RARE_SIGNS + string.digits
        chunk = rng.choice(edges) + inner + rng.choice(edges.replace("\\", ""))  # \\! is an escape
        # With another scribble's, a brace or a backquote would enclose the words between them: a placeholder, or code.
        encloses = chunk.count("{") != chunk.count("}") or chunk.count("`") % 2
        begins_text = re.search(rf"\\[nrt]|^[{PICTURES}]+[{re.escape(ORDINARY)}]", chunk)  # an escape, or a picture
        if any(sign in chunk for sign in SIGNS + RARE_SIGNS) and not encloses and not begins_text:
            return chunk


KINDS: tuple[Callable[[random.Random], str], ...] = (
    *(template, template, scribble, scribble, scribble),
    *(identifier, path, code, address, escape, amount),
)


def island(rng: random.Random, source: str) -> str:
    if rng.random() < 0.1:
        scripts = [script for script in FOREIGN if script not in OWN_SCRIPTS.get(source, ())]
        return rng.choice(FOREIGN[rng.choice(scripts)])
    while True:
        kind = rng.choice(KINDS)
        made = kind(rng).translate(NO_WORDS.get(source, {})) if kind is scribble else kind(rng)
        camel_case = made.isalpha() and not made[1:].islower()
        if camel_case or not WORDS_IN_MARKS.fullmatch(made.strip(ORDINARY)):
            return made


def sentence(rng: random.Random, pair: tuple[str, str]) -> Sentence:
    """Four to nine words with one to four islands between them, before them or after them."""
    words = WORDS[pair]
    chosen = rng.sample(sorted(words), rng.randint(4, 9))
    chunks = [chosen[0].capitalize(), *chosen[1:]]
    islands: list[str] = []
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        made = island(rng, pair[0])
        beside_word = PICTURES_BESIDE_WORDS.fullmatch(made)
        number = re.search(r"\A\d+(?= |[%€°]\Z)|(?<=\A[$§])\d+\Z", made)  # "27%" may become "27 %"
        islands += filter(None, beside_word.groups() if beside_word else [number[0] if number else made])
        before, after = rng.choice((*(("", ""),) * 6, ("", ","), ("(", ")"), ('"', '"')))
        chunks.insert(rng.randint(0, len(chunks)), f"{before}{made}{after}")
    text = " ".join(chunks) + rng.choice((".", "!", "?", ""))
    return Sentence(text, tuple(islands), tuple(words[word] for word in chosen))


def sentences(seed: int, count: int) -> dict[tuple[str, str], list[Sentence]]:
    rng = random.Random(seed)
    return {pair: [sentence(rng, pair) for _ in range(count // len(WORDS))] for pair in WORDS}
