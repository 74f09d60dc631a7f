"""hf:NAME through the `datasets` library: a made-up one, and the real one on a local folder where it is installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.training.data.corpus_writers import PAIRS, fault, refusal, write
from training.data.corpus_loading import parse_dataset_name, read_pairs, read_text

ROWS = [{"translation": {"de": source, "en": target}} for source, target in PAIRS]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The calls to a fake `datasets`."""
    calls: list[tuple[Any, ...]] = []

    def load_dataset(name: str, config: str | None, *, split: str) -> list[dict[str, Any]]:
        calls.append((name, config, split))
        if name == "owner/missing":
            raise FileNotFoundError("Dataset 'owner/missing' doesn't exist on the Hub.\nSecond line")
        return [{"text": "la\r\n"}, {"text": "lo"}] if name == "songs" else ROWS

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return calls


@pytest.mark.parametrize(
    ("argument", "wanted"),
    [
        ("hf:name", ("name", None, "train")),
        ("hf:owner/name", ("owner/name", None, "train")),
        ("hf:owner/name:de-en", ("owner/name", "de-en", "train")),
        ("hf:owner/name:test", ("owner/name", None, "test")),
        ("hf:owner/name:train[:10%]", ("owner/name", None, "train[:10%]")),
        ("hf:owner/name:de-en:validation[5:10]", ("owner/name", "de-en", "validation[5:10]")),
    ],
)
def test_parse_dataset_name(asked: list[tuple[Any, ...]], argument: str, wanted: tuple[Any, ...]) -> None:
    result = read_pairs(argument, ("de", "en"))
    assert asked == [wanted]
    assert list(zip(result.sources, result.targets, strict=True)) == PAIRS
    assert (result.origin, result.place(1)) == (argument, f"{argument}:2")


@pytest.mark.parametrize("argument", ["hf:", "hf::x", "hf:a:b:c:d", "hf:a:"])
def test_invalid_dataset_names_are_refused(argument: str) -> None:
    assert refusal(parse_dataset_name, argument).startswith(f"{argument} is no data set's name: write hf:NAME,")


def test_unloadable_data_set_is_reported(asked: list[tuple[Any, ...]]) -> None:
    expected = "hf:owner/missing cannot be loaded (Dataset 'owner/missing' doesn't exist on the Hub)."
    assert fault("hf:owner/missing", ("de", "en")) == expected


def test_row_without_the_languages_is_reported(asked: list[tuple[Any, ...]]) -> None:
    expected = (
        "hf:name row 1 has the keys 'translation', 'de', 'en'; a pair needs 'de' and 'fr', or 'source' and 'target'."
    )
    assert fault("hf:name", ("de", "fr")) == expected


def test_text_data_set_is_read(asked: list[tuple[Any, ...]]) -> None:
    assert read_text("hf:songs") == "la\nlo\n"


def test_missing_library_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    expected = "hf:name needs the datasets library: pip install datasets."
    assert fault("hf:name", ("de", "en")) == expected
    assert refusal(read_text, "hf:name") == expected


def test_a_local_folder_with_the_real_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    pytest.importorskip("datasets", reason="the extra `hf` is not installed")
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "train.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
    result = read_pairs(f"hf:{folder}", ("de", "en"))
    assert list(zip(result.sources, result.targets, strict=True)) == PAIRS
    assert "cannot be loaded (" in fault(f"hf:{folder}:no-such", ("de", "en"))
