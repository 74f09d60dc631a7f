"""The lists of other programs' options hold every name that the installed packages have."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterable

import pytest

from tests.app.api.option_lists import PROGRAMS

pytestmark = pytest.mark.clients


def missing(program: str, names: Iterable[str]) -> set[str]:
    return set(names) - PROGRAMS[program].keys()


def test_openai() -> None:
    parameters = pytest.importorskip("openai.types.completion_create_params")
    names = typing.get_type_hints(parameters.CompletionCreateParamsStreaming)
    assert len(names) >= 17
    assert not missing("OpenAI", names)


def test_ctranslate2() -> None:
    """Of its methods in C++, whose signatures are the first lines of their documentation."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    names = {"target_prefix"}
    for method in (ctranslate2.Translator.translate_batch, ctranslate2.Generator.generate_batch):
        signature = method.__doc__.partition("\n")[0]
        names |= set(re.findall(r"(\w+): ", signature)) - {"self"}
    for method in (ctranslate2.Translator.generate_tokens, ctranslate2.Generator.generate_tokens):
        names |= set(inspect.signature(method).parameters) - {"translator", "generator"}
    assert len(names) >= 39
    assert not missing("CTranslate2", names)


def test_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    names = {name for name in vars(transformers.GenerationConfig()) if not name.startswith("_")}
    names |= set(inspect.signature(transformers.GenerationMixin.generate).parameters) - {"self", "kwargs"}
    assert len(names) >= 70
    assert not missing("transformers", names)


def test_deepl() -> None:
    """As its client writes them into requests of texts and documents."""
    translator = pytest.importorskip("deepl.translator")
    source = inspect.getsource(translator.Translator)
    texts = source[source.index("def _check_language_and_formality") : source.index("def translate_document_download")]
    names = set(re.findall(r'request_data\["(\w+)"\]', texts)) | {"target_lang", "file"}
    assert len(names) >= 20
    assert not missing("DeepL", names)
