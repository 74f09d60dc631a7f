"""The layout of plain texts comes back to the character: each kind with twenty members or more, through an engine that
writes words in capitals and aligns them perfectly."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from app.translation.driver import Translator
from app.translation.segments import one_plain_sentence, segmented
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request

SENTENCES = ("Ich möchte ein Bier.", "Zwei Hunde spielen", "Wo ist Anna?", "ein kleiner Ball!")
# In each layout, a line of these texts, a sentence stands in place of %, and ⏎ and ⇥ for a line end and a tab.
LAYOUT_LINES = {
    "leaders and blanks": r"""
% ........ %
% ....... 12
% …… 12
3 . . . . . %
% ····· IV
12: ____ %
____ %
% _____
% ----- %
-----⏎%⏎-----
% *** %
%⏎=====⏎%
%⏎~~~~⏎%
% ==== %
#### %
% _ _ _ _ %
(____) %
%⏎__________
% --- %
…… %
""",
    "list markers": r"""
a. %⏎b. %
a) %
(a) %
A. %
I. %⏎II. %⏎IV. %
iv) %
(iii) %
[1] %
[a] %
1. %
1) %
(1) %
1.2.3. %
§ 1. %
§ 12a) %
Nr. 1: %
Abb. 12: %
• %
– %
— %
☐ %
- [x] %
* [ ] %
  - %⏎    - %
> 1. %
> > - %
1\. %
\- %
// %
-> %
; %
1.1) %
- a) %
✓ %
1️⃣ %
→ %
‣ %
– – %
[00:12] %
[00:12.50]%
Q: %⏎A: %
* %⏎+ %
1)%
[^1]: %
一、%
（1）%
1． %
""",
    "emoticons": r"""
% :)
% ;-)
:D %
% xD
% <3
% ¯\_(ツ)_/¯
% (╯°□°)╯︵ ┻━┻
% ʕ•ᴥ•ʔ
(^_^) %
% ^^
% o_O
% :'(
% :-P %
% -_- %
% >_<
% (◕‿◕)
% ಠ_ಠ
% (: %
% :) :D
% 😀 :)
%⏎:-)⏎%
% ( ͡° ͜ʖ ͡°)
% T_T
\o/ ^^ %
% ♥ <3
""",
    "Markdown": r"""
# %
## % ##
%⏎===
%⏎---
> %⏎> %
> [!NOTE]⏎> %
> [!WARNING] %⏎> %
!!! note "%"⏎    %
!!! note⏎    %
??? tip %
:::tip⏎%⏎:::
::: warning %⏎%⏎:::
## % {#kopf}
%  ⏎%
%\⏎%
| % | % |⏎|---|:-:|⏎| % | 12 |
- [ ] %⏎- [x] %
<!-- ein Hund -->⏎%
---⏎titel: Der Hund⏎---⏎%
+++⏎titel = 'Hund'⏎+++⏎%
```⏎ein hund⏎```⏎%
[1]: https://a.example/b⏎%
[b-1]: <https://a.example> '%'⏎%
%⏎⏎***⏎⏎%
[^1]: %
%[^1]⏎%
[%](https://a.example/b_c)
[%][1]
[%][]
![%](a.png "b")
[![%](a.png)](https://a.example)
**%**
__**%**__
~~***%***~~
- **%**
\*%\*
> - [ ] *%*
1. [%](https://a.example)
***%***
~~%~~
__%__ %
$$⏎x = hund⏎$$⏎%
""",
    "BBCode, AsciiDoc, chats and wikis": r"""
[b]%[/b]
[b]% %[/b]
[url=https://a.example/b]%[/url]
[quote]%[/quote]
[quote=Anna]⏎%⏎[/quote]⏎%
[list]⏎[*] %⏎[*] %⏎[/list]
[code]ein hund[/code] %
[img]a/hund.png[/img]⏎%
[color=red][b]%[/b][/color]
https://a.example/b[%]
link:b.html[%]
xref:b.adoc[%]
<<b-c,%>>
||%||
<https://a.example/b|%>
~%~
*%*
_%_
==%==
''%''
'''%'''
[[Seite|%]]
[[https://a.example][%]]
[https://a.example %]
"%":https://a.example/b
`% <https://a.example>`_
.. note:: %
:param x: %
""",
    "rows of resource files": r"""
greeting=%
msgid "%"
/* % */⏎"a" = "%";
greeting = %
home.title = %⏎home.text = %
"greeting" = "%";
"key": "%",
  'a_b': '%',
{"a": "%", "b": "%"}
{⏎  "a": "%",⏎  "zahl": 3,⏎  "b": {⏎    "c": "%"⏎  }⏎}
one: "%"⏎other: "%"
de:⏎  hunde:⏎    one: "%"
gruss: %⏎abschied: %
[main]⏎greeting=%
'key' => '%',
export GREETING="%"
home.title: %
homeTitle: %
# %⏎key=%
key=%\n%
GREETING=%
a-b=%
%\n\n%
- titel_1: %
""",
    "cells": r"""
Anna;Berlin;31
Hund|Katze|3
Hund;Katze⏎Ball;Bier
ein Hund;zwei Katzen;3
"Hund";"Katze";"31"
Anna,Berlin,31⏎Otto,Bonn,5
Hund⇥Katze⏎Ball⇥Bier
| Hund | Katze |
Hund | Katze
Name; Ort; Alter⏎Anna; Berlin; 31
rot,gelb,blau
name,ort,alter⏎Anna,Bad Homburg,31
"Hund, klein","Katze"⏎"Ball","Bier, kalt"
Hund;;Katze⏎Ball;;Bier
Anna;1,5;Berlin⏎Otto;2,5;Bonn
a;b;Hund⏎c;d;Katze
Anna;anna@a.example;Berlin
Hund;https://a.example/b;Bier
Anna Muster;Hauptstr;10115
Hund · Katze · Bier
Hund • Katze
Anna;Berlin⏎⏎Otto;Bonn
""",
}
LAYOUTS = {
    kind: [line.replace("⏎", "\n").replace("⇥", "\t") for line in lines.strip("\n").split("\n")]
    for kind, lines in LAYOUT_LINES.items()
}
CELL = r"(?<![\w@/.])[^\W\d_]+(?:,? [^\W\d_]+)*(?![\w@:/.])"
MEMBERS = [(kind, layout) for kind, layouts in LAYOUTS.items() for layout in layouts]


def translated(text: str, **behaviour: Any) -> str:
    engine = WordEngine(**behaviour)
    (result,) = asyncio.run(Translator(engine).translate([text_request(text, "de", "en")]))
    return result.text


def test_each_kind_has_twenty_members() -> None:
    assert all(len(set(layouts)) >= 20 for layouts in LAYOUTS.values())


@pytest.mark.parametrize("row", LAYOUTS["cells"])
def test_cells_are_texts_of_their_own(row: str) -> None:
    assert segmented(row, "de").pieces == re.findall(CELL, row)
    assert translated(row) == re.sub(CELL, lambda cell: cell[0].upper(), row)


@pytest.mark.parametrize(("kind", "layout"), [each for each in MEMBERS if each[0] != "cells"])
def test_layout_around_sentences_stays(kind: str, layout: str) -> None:
    for sentence in SENTENCES:
        assert translated(layout.replace("%", sentence)) == layout.replace("%", sentence.upper()), kind
        assert translated(layout.replace("%", sentence), backwards=True, aligns=False) == layout.replace(
            "%", " ".join(reversed(sentence.upper().split()))
        ), kind


WITHOUT_LAYOUT = r"""
I have two cats.
A man is here.
Im Haus ist ein Hund.
z. B. ein Hund
i.e. ein Hund
12 Katzen
1,5 Liter
S. 5 lesen
(Ein Hund)
[Ein Hund]
-5 Grad sind kalt.
$5 kostet es
Das ist Plan (b).
Ich lerne C++
ein AT&T Hund
R&B und Q&A
der user_id Hund
Ich kam; ich sah; ich ging.
Er kam, sah, und ging.
Er sagte: komm
Achtung: der Hund
1,50 Euro, ja
Warte... ja
Hallo!!! du
v. Chr. war er
Windows XP ist alt
ein (siehe a) Hund
I am 5
Mix es
mix. Es
Die Tür ist offen, oder
d. h. ein Hund
Wo ist es?!
Bitte 10 % davon
Wer, wie, was?
Ja, dann: 'komm'
1.57 MiB
der `.....` Hund
das https://a.example/x/---- da
rot, gelb, blau
das `{"a": "Hund"}` da
""".strip("\n").split("\n")


@pytest.mark.parametrize("text", WITHOUT_LAYOUT)
def test_beginnings_and_ends_of_sentences_are_no_marks(text: str) -> None:
    assert segmented(text, "de").spans[0][0] == 0
    assert "".join(segmented(text, "de").pieces).replace(" ", "") == text.replace(" ", "")


INLINE = r"""
[{}](https://a.example/b)
[{}][1]
![{}](a.png)
**{}**
*{}*
__{}__
~~{}~~
~{}~
||{}||
=={}==
[b]{}[/b]
[url=https://a.example/b]{}[/url]
[color=red]{}[/color]
https://a.example/b[{}]
link:a.html[{}]
<https://a.example/b|{}>
<<a-b,{}>>
[[Seite|{}]]
[[https://a.example][{}]]
[https://a.example {}]
"{}":https://a.example/b
`{} <https://a.example>`_
[b][i]{}[/i][/b]
[![{}](a.png)](https://a.example)
***{}***
""".strip("\n").split("\n")


@pytest.mark.parametrize("signs", INLINE)
def test_signs_within_a_sentence_are_around_their_words(signs: str) -> None:
    for words in ("Hund", "kleiner Hund"):
        engine = WordEngine()
        source = f"Ein {signs.format(words)} spielt da."
        assert asyncio.run(Translator(engine).translate([text_request(source, "de", "en")]))[0].text == (
            f"EIN {signs.format(words.upper())} SPIELT DA."
        )
        assert engine.source_texts == [f"Ein {words} spielt da."]
        swapped = " ".join(reversed(words.upper().split()))
        assert translated(source, backwards=True) == f"DA. SPIELT {signs.format(swapped)} EIN"


LABELS = {
    **{f"{sign}Datei": f"{sign}DATEI" for sign in "&_~"},
    **{f"{sign}Datei öffnen...": f"ÖFFNEN... {sign}DATEI" for sign in "&_~"},
    **{f"Datei {sign}öffnen": f"{sign}ÖFFNEN DATEI" for sign in "&_~"},
    **{f"S{sign}peichern unter": f"UNTER {sign}SPEICHERN" for sign in "&_~"},
    **{f"Be{sign}arbeiten": f"{sign}BEARBEITEN" for sign in "&_~"},
    **{f"Neue Datei ({sign}D)": f"DATEI NEUE ({sign}D)" for sign in "&_~"},
    **{f"Datei({sign}D)...": f"DATEI({sign}D)..." for sign in "&_~"},
    "Müller & Sohn": "SOHN & MÜLLER",
    "AT&T": "AT&T",
    "R&B": "R&B",
}


@pytest.mark.parametrize("label", LABELS)
def test_accelerator_is_on_a_word_of_the_label(label: str) -> None:
    assert translated(label, backwards=True) == LABELS[label]


def test_accelerator_of_a_lost_word_is_on_the_word_in_its_place() -> None:
    assert translated("eine &Datei da", words={"datei": ""}) == "EINE &DA"
    assert translated("eine &Datei", words={"datei": ""}) == "&EINE"


def test_bold_label_is_a_text_of_its_own() -> None:
    for label in ("**Hund:**", "**Hund**:", "__Hund:__"):
        assert translated(f"- {label} Wo ist Anna?", backwards=True) == f"- {label.upper()} ANNA? IST WO"


def test_texts_beside_a_leader_are_both_translated() -> None:
    text = "Ich heiße Anna ........ und ich habe zwei Katzen."
    assert translated(text) == "ICH HEISSE ANNA ........ UND ICH HABE ZWEI KATZEN."


@pytest.mark.parametrize("text", ["haha xD", "rot,gelb,blau", "Ja -- nein", "Ein Hund --- eine Katze", "XD ja"])
def test_layout_among_letters_is_not_a_plain_sentence(text: str) -> None:
    assert not one_plain_sentence(text)
