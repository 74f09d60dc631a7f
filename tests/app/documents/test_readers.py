"""The table of readers: every format is in it, and whatever is derived from it has every format."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

from app import documents
from app.documents.readers import READERS
from tests.app.documents.sample_documents import SAMPLES

DOCS = Path(__file__).parents[3] / "docs" / "protocols.md"


def reader_classes() -> set[type]:
    """The classes of app.documents that can write a document."""
    modules = [
        importlib.import_module(f"app.documents.{module.name}") for module in pkgutil.iter_modules(documents.__path__)
    ]
    return {
        defined
        for module in modules
        for _, defined in inspect.getmembers(module, inspect.isclass)
        if defined.__module__ == module.__name__
        and hasattr(defined, "written")
        and hasattr(defined, "format")
        and not inspect.isabstract(defined)
    }


def test_every_reader_has_a_row() -> None:
    missing = {reader.__name__ for reader in reader_classes() - {row.read for row in READERS.values()}}
    assert not missing, f"Add to READERS in app/documents/readers.py a row with the file extension of {missing}."


def test_every_row_has_a_sample() -> None:
    missing = READERS.keys() - SAMPLES.keys()
    assert not missing, f"Add to SAMPLES in tests/app/documents/sample_documents.py a file for {missing}."


@pytest.mark.parametrize("extension", READERS)
def test_every_row_is_documented(extension: str) -> None:
    reader = READERS[extension]
    line = f"| `{extension}` | `{reader.media_type}` | {reader.translates} |"
    assert line in DOCS.read_text().splitlines(), f"Add to the table of files in docs/protocols.md: {line}"


@pytest.mark.parametrize("extension", READERS)
def test_file_with_unchanged_texts_is_the_same_file(extension: str) -> None:
    content = SAMPLES[extension].content()
    document = READERS[extension].read(content)
    assert document.texts
    written = document.written(document.texts)
    texts = READERS[extension].read(written).texts
    assert texts in (document.texts, [])  # a file that has both languages has no more to translate
    if texts and not READERS[extension].packaged:
        assert written == content


def test_zip_packages_are_marked_as_packaged() -> None:
    assert {extension for extension, reader in READERS.items() if reader.packaged} == {
        extension for extension in READERS if SAMPLES[extension].content().startswith(b"PK")
    }
