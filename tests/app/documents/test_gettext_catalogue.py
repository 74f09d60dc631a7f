"""Catalogues of gettext: what is translated, what is kept, and that gettext's own compiler takes the result."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from app import documents
from app.errors import InvalidRequest
from tests.app.documents.sample_documents import Backwards, through

CATALOGUE = r"""# Translators of the program.
#, fuzzy
msgid ""
msgstr ""
"Project-Id-Version: program 1\n"
"Language: \n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=CHARSET\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\n"

#. Shown at the start.
#: main.c:3
#, c-format
msgid "a \"%s\"\n"
msgstr ""

msgctxt "menu"
msgid ""
"first line\n"
"second line\n"
msgstr ""

msgid "kept"
msgstr "behalten"

#, fuzzy
msgid "to read"
msgstr "zu lesen"

#: main.c:9
#| msgid "a dog"
msgid "a cat"
msgid_plural "%d cats"
msgstr[0] ""
msgstr[1] ""

#~ msgid "gone"
#~ msgstr "weg"
"""


def translated(catalogue: str, language: str = "pt-BR") -> tuple[str, Backwards]:
    ask = Backwards()
    return asyncio.run(documents.translated(".po", catalogue.encode(), ask, lambda: language)).decode(), ask


def test_messages_without_a_translation_are_translated_and_flagged() -> None:
    content, ask = translated(CATALOGUE)
    assert ask.texts_seen == ['a "%s"\n', "first line\nsecond line\n", "a cat", "%d cats"]
    assert ask.format == "text"
    changes = {
        "Language: ": "Language: pt_BR",
        "CHARSET": "UTF-8",
        "nplurals=INTEGER; plural=EXPRESSION;": "nplurals=2; plural=(n != 1);",
        "#, c-format": "#, fuzzy, c-format",
        '"a \\"%s\\"\\n"\nmsgstr ""': '"a \\"%s\\"\\n"\nmsgstr "A \\"%S\\"\\n"',
        'msgctxt "menu"': '#, fuzzy\nmsgctxt "menu"',
        '"second line\\n"\nmsgstr ""': '"second line\\n"\nmsgstr ""\n"FIRST LINE\\n"\n"SECOND LINE\\n"',
        '#| msgid "a dog"': '#, fuzzy\n#| msgid "a dog"',
        'msgstr[0] ""\nmsgstr[1] ""': 'msgstr[0] "A CAT"\nmsgstr[1] "%D CATS"',
    }
    wanted = CATALOGUE
    for before, after in changes.items():
        assert wanted.count(before) == 1
        wanted = wanted.replace(before, after)
    assert content == wanted


@pytest.mark.parametrize(
    ("forms", "wanted"),
    [(1, ["%D CATS"]), (3, ["A CAT", "%D CATS", "%D CATS"])],
)
def test_catalogue_keeps_its_number_of_plural_forms(forms: int, wanted: list[str]) -> None:
    lines = "".join(f'msgstr[{number}] ""\n' for number in range(forms))
    content, _ = translated(f'msgid "a cat"\nmsgid_plural "%d cats"\n{lines}')
    assert [line.split('"')[1] for line in content.splitlines() if line.startswith("msgstr")] == wanted


def test_line_ends_and_the_byte_order_mark_are_kept() -> None:
    content, _ = through(".po", b'\xef\xbb\xbfmsgid "a\\tb"\r\nmsgstr ""\r\n')
    assert content == b'\xef\xbb\xbf#, fuzzy\r\nmsgid "a\\tb"\r\nmsgstr "A\\tB"\r\n'


def test_each_line_keeps_its_own_end() -> None:
    content, _ = through(".po", b'# one\r\nmsgid "a"\nmsgstr ""\n\r\nmsgid "kept"\nmsgstr "b"\r\n')
    assert content == b'# one\r\n#, fuzzy\nmsgid "a"\nmsgstr "A"\n\r\nmsgid "kept"\nmsgstr "b"\r\n'


def test_escaped_bytes_of_one_character_are_read_together() -> None:
    """As `msgcat --escape` writes them."""
    content, ask = translated(r"""msgid "\303\244 \xc3\xa9\101\n\777"
msgstr ""
""")
    assert ask.texts_seen == ["ä éA\n\ufffd"]
    assert content.endswith('msgstr ""\n"Ä ÉA\\n"\n"\ufffd"\n')


def test_translated_catalogue_comes_back_untouched() -> None:
    whole = 'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "kept"\nmsgstr "behalten"\n'
    assert translated(whole)[0] == whole


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("just a text", "line 1 is no comment, keyword or text in quotes"),
        ('msgid "a"\nmsgstr "b\n', "line 2 is no comment"),
        ('msgid "a"\nmsgid_plural "b"\nmsgid_plural "c"\nmsgstr[0] ""', "line 3 is no comment"),
        ('msgstr "b"', "line 1 is no comment"),
        ('msgid "a"\n', "a message has no msgid or msgstr"),
        ('msgctxt "a"\nmsgstr "b"\n', "a message has no msgid or msgstr"),
    ],
)
def test_file_that_is_no_catalogue_is_refused(content: str, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        through(".po", content.encode())


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
def test_gettext_compiles_the_translated_catalogue(tmp_path: Path) -> None:
    content, _ = translated(CATALOGUE.replace("%s", "x").replace("%d cats", "many cats"))
    file = tmp_path / "pt_BR.po"
    file.write_text(content)
    command = ["msgfmt", "--check-format", "--use-fuzzy", "--statistics", "-o", str(tmp_path / "a.mo"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "1 translated message, 4 fuzzy translations.\n"
