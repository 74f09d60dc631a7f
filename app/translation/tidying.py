"""What a model writes of its own accord and has no business to: layout. It reads words with single spaces between them,
and nothing but that is taken from it, so that all of a text's layout is the source's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.engine.jobs import Translation
from app.text.characters import INVENTED, JOINERS, spells
from app.translation.edits import Edit, edited


def tidied(translation: Translation, prefix: str) -> Translation:
    """prefix: what the translation was made to begin with, which stays as it is."""
    edits = list(_edits(translation.text, prefix))
    others = tuple(tidy(text, prefix) for text in translation.alternatives)
    if not edits and others == translation.alternatives:
        return translation
    return edited(replace(translation, alternatives=others), edits)


def tidy(text: str, prefix: str) -> str:
    return edited(Translation(text, (), "stop", ""), list(_edits(text, prefix))).text


class Tidying:
    """The same of a text that is still being written: what may yet change is held back."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._text, self._shown = prefix, "", 0

    def more(self, text: str) -> str:
        """What can be shown now."""
        self._text += text
        end = len(self._text)
        while end > len(self._prefix) and INVENTED.fullmatch(self._text[end - 1]):
            end -= 1
        sound = tidy(self._text[:end], self._prefix)
        shown, self._shown = sound[self._shown :], max(self._shown, len(sound))
        return shown


def _edits(text: str, prefix: str) -> Iterator[Edit]:
    start = len(prefix) if prefix and text.startswith(prefix) else 0
    for found in INVENTED.finditer(text, start):
        run = found[0]
        if run == " " and found.start() > 0 and found.end() < len(text):
            continue
        if run in JOINERS and spells(text, found.start()):
            continue
        inner = found.start() > 0 and found.end() < len(text)
        yield Edit(found.start(), found.end(), " " if inner and any(map(str.isspace, run)) else "")
