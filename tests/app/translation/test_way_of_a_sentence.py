"""How many functions somebody reads who follows a sentence from `Translator.translate` to the engine and back."""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
import textwrap
from types import CodeType, FrameType

import pytest

import app
from app.translation.driver import Translator
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request

ROOMS = tuple(f"{next(iter(app.__path__))}/{room}/" for room in ("translation", "text"))


def functions_entered(text: str) -> list[CodeType]:
    """The functions of `app.translation` and `app.text`, in the order in which they are first entered, of a translator
    that has translated the text before. A comprehension is read where it stands."""
    entered = dict[CodeType, None]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOMS) and not code.co_name.startswith("<"):
            entered[code] = None

    async def run() -> None:
        translator, requests = Translator(WordEngine()), [text_request(text, "de", "en")]
        await translator.translate(requests)
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            await translator.translate(requests)
        finally:
            sys.setprofile(before)

    asyncio.run(run())
    return list(entered)


def returns(code: CodeType) -> int:
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(code))).body
    return sum(isinstance(node, ast.Return) for node in ast.walk(function))


@pytest.mark.parametrize(
    ("text", "most", "most_early"),
    [("Ein Hund schläft im Gras.", 25, 10), ("Hallo {name}, du bist da.", 105, 50)],
    ids=["plain", "placeholder"],
)
def test_sentence_passes_few_functions(text: str, most: int, most_early: int) -> None:
    """most_early: returns besides one for each function, at which a reader has to ask which of them is taken."""
    passed = functions_entered(text)
    names = [code.co_qualname for code in passed]
    assert names[0] == "Translator.translate"
    assert {"translated_sentence", "CachedEngine.translate", "PreparedText.assembled"} <= {*names}
    assert len(names) <= most, "\n".join(names)
    early = {code.co_qualname: count - 1 for code in passed if (count := returns(code)) > 1}
    assert sum(early.values()) <= most_early, early
