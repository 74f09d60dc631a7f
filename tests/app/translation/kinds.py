"""The kinds of text that translations are known to damage, with at least twenty members each.

    python -m tests.app.translation.kinds http://127.0.0.1:8000

prints the members that a running server damages.

A member is a template. What stands between « and » is a text to translate, and everything else comes back to the
character and in order. In a sentence without them the `keeps` come back as often as the source has them, anywhere."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from app.translation import TextFormat
from tests.app.translation.made_sentences import FOREIGN, vocabulary

WORDS = {
    ("de", "en"): vocabulary(
        "guten:good morgen:morning hallo:hello danke:thanks ich:i heiße:am und:and wohne:live in:in habe:have "
        "katze:cat katzen:cats hund:dog hunde:dogs ein:a eine:one einen:an der:the die:that das:this ist:is "
        "sind:are kostet:costs bier:beer biere:beers möchte:want bitte:please kaffee:coffee für:for mann:man "
        "frau:woman zahlt:pays trinkt:drinks kauft:buys heute:today von:of milch:milk apfel:apple wiegt:weighs "
        "brot:bread keine:no vor:before haus:house steht:stands auf:on mit:with buch:book liest:reads "
        "arbeitet:works bei:at wenn:if komme:come er:he sie:she es:it kommt:comes titel:title fett:bold "
        "hinweis:note dauert:takes gast:guest gäste:guests tag:day tage:days seite:page zimmer:room "
        "kapitel:chapter lädt:invites zu:to"
    ),
    ("en", "es"): vocabulary(
        "good:buenos morning:días hello:hola thanks:gracias i:yo live:vivo in:en have:tengo cat:gato cats:gatos "
        "dog:perro the:el a:un costs:cuesta beer:cerveza want:quiero please:por drink:bebo and:y is:es book:libro"
    ),
}
PART = re.compile("«(.*?)»", re.DOTALL)
DOUBLED_SIGN = re.compile(r"([-+$€£%§]) ?\1")
MISPLACED_MARK = re.compile(r"[,:] ?[.!?]|[.!?] ?,| ,")


@dataclass(frozen=True, slots=True)
class Member:
    template: str
    keeps: tuple[str, ...] = ()
    pair: tuple[str, str] = ("de", "en")
    format: TextFormat = "text"

    @property
    def text(self) -> str:
        return PART.sub(r"\1", self.template)

    def lost(self, translation: str) -> list[str]:
        """What the translation does not have as the source has it."""
        lost = [part for part in self.keeps if translation.count(part) != self.text.count(part)]
        if "«" in self.template and not re.fullmatch(self._pattern(), translation, re.DOTALL):
            lost.append("the frame")
        return lost

    def misplaced(self, translation: str) -> list[str]:
        """Doubled signs and marks before marks that the source does not have."""
        found = [pattern.search(translation) for pattern in (DOUBLED_SIGN, MISPLACED_MARK)]
        return [match[0] for match in found if match and not match.re.search(self.text)]

    def untranslated(self, translation: str) -> list[str]:
        """The translations of the vocabulary that it does not have."""
        text, words = self.text, WORDS[self.pair]
        for part in self.keeps:
            text = text.replace(part, " ")
        parts = PART.findall(self.template) or [text]
        wanted = [words[word] for part in parts for word in re.findall(r"\w+", part.lower()) if word in words]
        return [word for word in wanted if word not in translation.lower()]

    def _pattern(self) -> str:
        """Of the template, with any text in its parts that has no other marks than as many number signs."""
        pieces = PART.split(self.template)
        patterns = []
        for place, piece in enumerate(pieces):
            anything = "#".join([r'[^{}\n\t\\#;|"]*'] * (piece.count("#") + 1))
            patterns.append(anything if place % 2 else re.escape(piece))
        return "".join(patterns)


def small_numbers() -> Iterator[Member]:
    amounts = ("{} €", "${}", "{} %", "{} kg", "{} mg", "{} °C", "-{} °C", "§ {}", "{} h", "{}x", "€{}", "{} km/h")
    frames = ("Ein Mann kauft {}.", "Das Bier kostet {}.", "Ich habe {} und Brot.", "Heute sind es {}.")
    for number in (1, 2, 3, 7, 12):
        for place, amount in enumerate(amounts):
            frame = frames[(place + number) % len(frames)]
            signs = [sign for sign in "€$%°§-" if sign in amount]
            yield Member(frame.format(amount.format(number)), (str(number), *signs))
        for word in ("Nr.", "Gate", "Gleis", "Zimmer", "Seite", "Kapitel"):
            yield Member(f"Das ist {word} {number}.", (str(number),))


def doubled_signs() -> Iterator[Member]:
    for amount in ("+3,5", "-45", "$1000", "€ 70", "50 %", "+1999", "±8", "-0,5 %", "+49 €", "£20", "-$15", "§ 14"):
        digits = re.sub(r"\D+$|^\D+", "", amount)
        yield Member(f"Das Bier kostet {amount}.", (digits,))
        yield Member(f"Das Bier kostet {amount} und das Brot {amount}.", (digits,))
        yield Member(f"Heute habe ich {amount} und wohne in Berlin.", (digits,))


SYNTAXES = (
    *("${name}", "{0}", "%s", "%d", "%2$s", "%(count)d", "{{ name }}", "{name!r}", "{price:.2f}", "$t(key.sub)"),
    *("@:(key)", "[[_name_]]", "%%name%%", "__NAME__", ":count", "&app_name;", "<%- name %>", "%ld", "%lu", "%3"),
    *("%L1", "%@", "%1$@", "%#@count@", "%<count>d", "#{count}", "{{{html}}}", "$COUNT$", "{$name}", "{ $name }"),
    *("{-brand}", "\\(name)", "{percent} %", "{price}€", "50%%", "%d%%", "{name:upper}", "$[name]", "%[name]", "%n"),
    *("{% now %}", "<name>", "{0,number}", "{user.first_name}", "[count]", "[%name%]", "%{name}", "@{name}"),
    *("@name@", "#name#", "^name^", "${{ name }}", "{{> name}}", "<?= name ?>", "\\{name\\}", "%1", "%zd", "{{t 'x'}}"),
    *("<%= hund %>", "{{ katze | upper }}", "{% if bier %}", "${buch}", "[[haus]]", "{frau}", "$(mann)", "%{milch}%"),
)


def placeholders() -> Iterator[Member]:
    for syntax in SYNTAXES:
        yield Member(f"Hallo {syntax}, guten Morgen.", (syntax,))
        yield Member(f"Ein Mann steht vor {syntax} und liest.", (syntax,))
        yield Member(f"Das Bier kostet {syntax}.", (syntax,))
        yield Member(f"{syntax} kauft heute Brot.", (syntax,))
    for one, two in zip(SYNTAXES[::2], SYNTAXES[1::2], strict=False):
        if one not in two and two not in one:
            yield Member(f"Ich habe {one} Katzen und {two} Hunde.", (one, two))


def icu_messages() -> Iterator[Member]:
    for name in ("count", "n", "0", "num_guests"):
        yield Member(f"{{{name}, plural, one {{«Ich habe # Katze.»}} other {{«Ich habe # Katzen.»}}}}")
        yield Member(f"{{{name}, plural,\n  =0 {{«keine Katze»}}\n  one {{«# Katze»}}\n  other {{«# Katzen»}}\n}}")
        yield Member(f"{{{name},plural,offset:1 =1{{«ein Gast»}} one{{«ein Gast und # Gast»}} other{{«# Gäste»}}}}")
        kept = f"{{{name}, plural, one {{", "} other {", "#"  # the whole sentence may move into the branches
        yield Member(f"Ich möchte {{{name}, plural, one {{# Bier}} other {{# Biere}}}} bitte.", kept)
        yield Member(
            f"{{{name}, select, male {{«Er kommt heute.»}} female {{«Sie kommt heute.»}} other {{«Es kommt.»}}}}"
        )
        yield Member(f"{{{name}, selectordinal, one {{#st}} two {{#nd}} few {{#rd}} other {{#th}}}} «Tag»")
        yield Member(
            f"{{g, select, male {{{{{name}, plural, one {{«Er lädt # Gast»}} other {{«Er lädt # Gäste»}}}}}}"
            f" other {{{{{name}, plural, one {{«Sie lädt # Gast»}} other {{«Sie lädt # Gäste»}}}}}}}}"
        )


def marks_before_the_end() -> Iterator[Member]:
    for inside in ("{name}", "%s", "🙂", "$(name)", "{{x}}", "<@123>", "@anna_7", "%1$s", "[[city]]", "${a.b}"):
        for end in ("!", ".", "?"):
            yield Member(f"«Guten Morgen», {inside}{end}", (inside,))
            yield Member(f"«Danke»: {inside}{end}", (inside,))
        yield Member(f"«good morning», {inside}!", (inside,), ("en", "es"))


def two_placeholders() -> Iterator[Member]:
    half = len(SYNTAXES) // 2
    for one, two in zip(SYNTAXES[:half], SYNTAXES[half:], strict=False):
        if one not in two and two not in one:
            yield Member(f"Ich heiße {one} und wohne in {two}.", (one, two))
            yield Member(f"Ein Mann kauft {one} für {two} und liest.", (one, two))
            yield Member(f"{one} und {two} trinkt Milch.", (one, two))


def escapes() -> Iterator[Member]:
    for mark in ("\\n", "\\t", "\\r\\n", "\\n\\n", "\\n\\t", "\\r", "\\n- ", "\\n\\n* "):
        yield Member(f"«Guten Morgen!»{mark}«Ich wohne in Berlin.»", (mark,))
        yield Member(f"«Guten Morgen!»{mark}«Ich habe eine Katze.»{mark}%s")
        yield Member(f"«Hallo»{mark}«ein Hund»{mark}«ein Apfel»")
    for mark in ('\\"', "\\'"):
        yield Member(f"Das ist {mark}Bier{mark} und Brot.", (mark,))
        yield Member(f"{mark}Guten Morgen!{mark}", (mark,))


def chat_marks() -> Iterator[Member]:
    marks = (
        *("<@215>", "<@!215987>", "<@&998877>", "<#4711>", "<a:hund:5512>", "<:blob_katze:77>", "<t:1700000000:R>"),
        *("</frage:88123>", "<!channel>", "<!here|here>", "<@U0HJ7>", "<#C05|allgemein>", "@here", "@everyone"),
        *("#allgemein_2", ":tada:", ":flag-de:", "@anna.k", "u/anna_b", "r/katzen", "<https://a.example/x|a.example>"),
        *("<mailto:a@b.example|a@b.example>", "!kick", "/me", "~fax"),
    )
    for mark in marks[:-3]:
        yield Member(f"Hallo {mark}, guten Morgen.", (mark,))
        yield Member(f"«Guten Morgen» {mark}", (mark,))
    for word in ("Hund", "Katze", "Bier"):
        yield Member(f"Hallo ||{word}||.", ("||",))


def addresses() -> Iterator[Member]:
    links = (
        *("youtu.be/xYz_12-3", "t.me/kanal", "bit.ly/3aBc", "firma.museum", "köln.example", "пример.рф", "例子.中国"),
        *("Übersicht.pdf", "größe_2.svg", "daten.tar.zst", "Bericht-final.docx", "git@host.example:a/b.git"),
        *(
            "ssh://host/x",
            "s3://eimer/y",
            "tel:+4930123",
            "magnet:?xt=urn:btih:c0ffee",
            "irc://netz/#kanal",
            "ipfs://Qm9",
        ),
        *("\\\\server\\akten", "D:\\daten\\hund.txt", "/usr/lib/x", "~/.config/a", "./lauf.sh", "localhost:8080/a"),
        *(
            "a.example/b_(c)",
            "a.example/?q=hund&x=1#ende",
            "müller@firma.example",
            "x+y@a.co.uk",
            "[::1]:80",
            "10.0.0.7",
        ),
    )
    for link in links:
        yield Member(f"Das Buch steht auf {link}.", (link,))
        yield Member(f"Eine Frau arbeitet bei {link} und wohne in {link}.", (link,))


def leaders() -> Iterator[Member]:
    for leader in (
        "........",
        ".....",
        "____",
        "__________",
        "· · · ·",
        "……",
        "*****",
        "----",
        "- - - -",
        "~~~~~",
        "=====",
    ):
        yield Member(f"«Ein Hund» {leader} «eine Katze»", (leader,))
        yield Member(f"«Der Titel» {leader} 17", (leader,))


def markers() -> Iterator[Member]:
    for marker, following in (
        *(("a.", "b."), ("a)", "b)"), ("(a)", "(b)"), ("A.", "B."), ("I.", "II."), ("iv)", "v)"), ("(ii)", "(iii)")),
        *(("[1]", "[2]"), ("1.", "2."), ("1)", "2)"), ("(1)", "(2)"), ("1.1", "1.2"), ("2.3.4", "2.3.5"), ("•", "•")),
        *(("–", "–"), ("*", "*"), ("+", "+"), ("- [ ]", "- [x]"), ("→", "→"), ("✓", "✗"), ("§ 1", "§ 2"), ("◦", "▪")),
    ):
        yield Member(f"{marker} «Ich möchte ein Bier»\n{following} «Ich möchte einen Kaffee»")
        yield Member(f"{marker} «Ich möchte ein Bier»")


def emoticons() -> Iterator[Member]:
    for emoticon in (
        *(":)", ";-)", ":D", ":-(", "<3", "^^", "xD", ":P", ":'(", "o_O", "¯\\_(ツ)_/¯", "(^_^)", "-.-", ":3", ":-/"),
        *("=)", "\\o/", ">:(", ":*", "T_T", "(╯°□°)╯", "^_^", ":-D", "8-)"),
    ):
        yield Member(f"«Guten Morgen» {emoticon}", (emoticon,))
        yield Member(f"«Guten Morgen!» {emoticon}", (emoticon,))
        yield Member(f"Ich habe eine Katze {emoticon} und einen Hund.", (emoticon,))


def comparisons() -> Iterator[Member]:
    for one in ("x<5", "a<=b", "n>=10", "i!=0", "k<n"):
        for two in ("y>3", "c==d", "z>>2", "m->p"):
            text = f"Wenn {one} und {two} ist, komme ich morgen."
            yield Member(text, (one, two))
            yield Member(text, (one, two), format="html")
    for sign in ("<", ">", "<=", "≥", "≠"):
        yield Member(f"Wenn x {sign} 25 ist, komme ich.", (sign, "25"))


def percentages() -> Iterator[Member]:
    for one, two in (("50 %", "20 %"), ("50%", "20%"), ("3,5 %", "7 %"), ("30 €", "50 €"), ("{a} %", "{b} %")):
        yield Member(f"Das sind {one} {two} und Brot.", (one[:-1].strip(), two[:-1].strip()))
        yield Member(f"Das Bier kostet {one} {two}.", (one[:-1].strip(), two[:-1].strip()))
        yield Member(f"{one} {two} ist das Brot.", (one[:-1].strip(), two[:-1].strip()))
    for sign in ("%", "‰", "€", "$"):
        yield Member(f"Das Bier ist {sign} und Brot.", (sign,))
        yield Member(f"Das Bier {sign} {sign} heute.", (sign,))


def pairs_of_tags() -> Iterator[Member]:
    names = ("0", "1", "b", "i", "a", "strong", "x-link", "t:em", "Link", "g2")
    for name in names:
        yield Member(f"«Guten Morgen» <{name}>«ein Hund»</{name}> «und eine Katze»")
        yield Member(f"&lt;{name}&gt;«Ein Hund»&lt;/{name}&gt; «liest ein Buch»")
    yield Member('<a href="x?y=1&z">«Ein Buch»</a> «für die Frau»')
    yield Member("<b>ein <i>Hund</i></b> und <b>Bier</b>", ("<b>", "<i>", "</i>", "</b>"))
    for quote in ('\\"', "\\'"):
        yield Member(f"«Das ist» {quote}«Bier»{quote} «und» {quote}«Brot»{quote}")


def markdown() -> Iterator[Member]:
    yield Member('[«das Buch»][1]\n\n[1]: https://example.com/a "«das Buch»"')
    yield Member("[«ein Hund»][hund]\n\n[hund]: https://example.com/hund")
    yield Member("[«ein Hund»][a-1] «und» [«eine Katze»][b]\n\n[a-1]: <https://example.com/a>\n[b]: /b")
    for alert in ("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION"):
        yield Member(f"> [!{alert}]\n> «Ich möchte ein Bier.»")
    for word in ("note", "warning", "tip"):
        yield Member(f"!!! {word}\n    «Ich möchte ein Bier.»")
        yield Member(f":::{word}\n«Ich möchte ein Bier.»\n:::")
    for level in ("#", "##", "###"):
        yield Member(f"{level} «Der Titel» {level}")
        yield Member(f"{level} «Der Titel» {{#titel-{len(level)}}}")
    yield Member("![«ein Hund»](hund.png)\n\n«Das ist ein Hund.»")
    yield Member("«Das ist» [«ein Hund»](https://example.com/a_b)", ("](https://example.com/a_b)",))
    yield Member("«Das ist fett»[^3]\n\n[^3]: «Ein Hund.»")
    yield Member("| «Hund» | «Katze» |\n|:---|---:|\n| «Bier» | 31 |")
    yield Member("[b]«Ein Hund»[/b]\n[url=https://example.com/x]«ein Buch»[/url]")
    yield Member("[quote=anna]\n«Ich möchte ein Bier.»\n[/quote]")
    yield Member("https://example.com/x[«ein Buch»]")
    yield Member("```python\nhund = 'Katze'\n```\n«Ein Hund»")
    yield Member("«Ein Hund»\n\n* * *\n\n«Eine Katze»")
    yield Member("Das ist \\*Bier\\* und \\_Brot\\_.", ("\\*", "\\_"))
    yield Member("Das ist `der_hund = 1` und Bier.", ("`der_hund = 1`",))


def cells() -> Iterator[Member]:
    for separator in (";", "\t", "|"):
        for number in ("31", "3,5", "2024-05-01", "", "-7", "0815", "x9"):
            yield Member(separator.join(("«Hund»", "«Katze»", number)))
            yield Member(separator.join((number, "«Hund»", "«Apfel»", number)) + "\n" + separator.join("5678"))
    for count in (31, 512, 9000):
        yield Member(f'"«Hund»","«Katze»",{count}\n"«Bier»","«Milch»",{count + 1}')


def other_scripts() -> Iterator[Member]:
    for words in FOREIGN.values():
        for word in words:
            yield Member(f"Ich wohne in {word}.", (word,))
            yield Member(f"{word} ist ein Hund", (word,))
            yield Member(f"I drink {word} and {word}", (word,), ("en", "es"))


KINDS = {
    make.__name__: [*make()]
    for make in (
        *(small_numbers, doubled_signs, placeholders, icu_messages, marks_before_the_end, two_placeholders, escapes),
        *(
            chat_marks,
            addresses,
            leaders,
            markers,
            emoticons,
            comparisons,
            percentages,
            pairs_of_tags,
            markdown,
            cells,
            other_scripts,
        ),
    )
}


def served_failures(address: str, kind: str, pairs: Collection[tuple[str, str]], *, marks: bool = True) -> list[str]:
    """Of each member of a kind that a server damages: itself, its translation, and what is lost or unwanted. marks:
    whether doubled signs and misplaced marks are damage, which a model without training writes by itself."""
    failures = []
    for member in KINDS[kind]:
        if member.pair in pairs:
            fields = {"q": member.text, "source": member.pair[0], "target": member.pair[1], "format": member.format}
            headers = {"content-type": "application/json"}
            request = urllib.request.Request(f"{address}/translate", json.dumps(fields).encode(), headers)
            with urllib.request.urlopen(request, timeout=60) as response:
                text = json.load(response)["translatedText"]
            faults = member.lost(text), member.misplaced(text) if marks else []
            if any(faults):
                failures.append(f"{member.text!r} -> {text!r}: lost {faults[0]}, unwanted {faults[1]}")
    return failures


def main() -> None:
    counts = []
    for kind, members in KINDS.items():
        failures = served_failures(sys.argv[1], kind, WORDS)
        counts.append(f"{kind}: {len(members) - len(failures)} of {len(members)}")
        print(*failures, counts[-1], sep="\n")
    print("\n", *counts, sep="\n")


if __name__ == "__main__":
    main()
