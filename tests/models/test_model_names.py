"""What people call a model, and which repository and folder that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.model_names import checkpoint_folder, parse_model_name, split_names

OPUS = "Helsinki-NLP/opus-mt-de-en"
PAIR = (OPUS, "Helsinki-NLP/opus-mt-tc-big-de-en")


@pytest.mark.parametrize(
    ("given", "repositories", "revision"),
    [
        (OPUS, (OPUS,), None),
        (f" {OPUS} ", (OPUS,), None),
        (f"https://huggingface.co/{OPUS}", (OPUS,), None),
        (f"https://huggingface.co/{OPUS}/", (OPUS,), None),
        (f"https://hf-mirror.example/{OPUS}?library=transformers#use", (OPUS,), None),
        (f"https://huggingface.co/{OPUS}/tree/v2", (OPUS,), "v2"),
        (f"huggingface.co/{OPUS}/blob/main/config.json", (OPUS,), "main"),
        (f"hf://{OPUS}", (OPUS,), None),
        (f"{OPUS}@0123abc", (OPUS,), "0123abc"),
        ("opus-mt-de-en", (OPUS,), None),
        ("de-en", PAIR, None),
        *((pair, PAIR, None) for pair in ("DE→EN", "de_en", "de2en", "de:en", "de/en", "de->en", "de-to-en", "de–en")),
        (f"www.huggingface.co/{OPUS}/", (OPUS,), None),
        (f"https://huggingface.co/{OPUS}.git", (OPUS,), None),
        (f"https://mirror.example/hub/v1/{OPUS}/tree/v2", (OPUS,), "v2"),  # of HF_ENDPOINT
        (f"{OPUS}/", (OPUS,), None),
        (OPUS.lower(), (OPUS,), None),
        ("OPUS-MT-TC-Big-en-ROMANCE", ("Helsinki-NLP/opus-mt-tc-big-en-ROMANCE",), None),
        ("https://huggingface.co/datasets/Helsinki-NLP/opus-100", (), None),
        ("https://huggingface.co/Helsinki-NLP", (), None),
        ("demo-de-en", (), None),
        ("./de/en", (), None),
        ("/models/opus", (), None),
        ("", (), None),
    ],
)
def test_names_addresses_and_pairs(
    given: str, repositories: tuple[str, ...], revision: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/hub/v1/")
    name = parse_model_name(given)
    assert (name.repositories, name.revision) == (repositories, revision)


def test_checkpoint_of_a_name_is_the_folder_that_is_there(tmp_path: Path) -> None:
    for folder in ("opus-mt-tc-big-en-pt", "demo-de-en"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text("{}", encoding="utf-8")
    assert checkpoint_folder("en-pt", tmp_path) == tmp_path / "opus-mt-tc-big-en-pt"
    assert checkpoint_folder("demo-de-en", tmp_path) == tmp_path / "demo-de-en"
    assert checkpoint_folder("someone/demo-de-en@v1", tmp_path / "none") is None
    assert checkpoint_folder(str(tmp_path / "demo-de-en"), tmp_path) == tmp_path / "demo-de-en"
    assert checkpoint_folder("de-en", tmp_path) is None
    assert checkpoint_folder("", tmp_path) is None


def test_list_of_names_has_commas_or_spaces() -> None:
    assert split_names(" de-en, en-fr\nde-en,,opus-mt-en-es ") == ("de-en", "en-fr", "opus-mt-en-es")
