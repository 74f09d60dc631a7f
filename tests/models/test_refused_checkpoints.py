"""Checkpoint folders that are refused, and with which sentence."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from tests.models.folders import edit, one_sentence, written


def refused(folder: Path, file: str, *words: str) -> None:
    """One sentence that names the file and says these words."""
    with pytest.raises(CheckpointError) as excinfo:
        checkpoints.read(folder)
    one_sentence(str(excinfo.value), folder / file, *words)


@pytest.mark.parametrize("name", ["model.safetensors", "source.json", "target.json"])
def test_missing_truncated_and_tampered_files(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:-1])
    refused(folder, name, "checksum")
    (folder / name).write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    refused(folder, name, "checksum")
    (folder / name).unlink()
    refused(folder, name, "missing")
    (folder / name).mkdir()
    refused(folder, name, "missing")


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "config.json", "is missing", "is not a checkpoint")
    assert not checkpoints.is_checkpoint(tmp_path / "nowhere")


def test_name_without_its_folder_is_answered_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = written(tmp_path).name
    monkeypatch.chdir(tmp_path)
    refused(Path(name), "config.json", f"{name} is not a checkpoint, and checkpoints/{name} is.")
    with pytest.raises(CheckpointError, match=r"is not a checkpoint\.$"):
        checkpoints.read_config(Path("another"))


def test_newer_format_is_refused_with_advice(tmp_path: Path) -> None:
    folder = written(tmp_path)
    edit(folder, format_version=3, something_new=True)
    refused(folder, "config.json", "format 3", "up to 2", "upgrade Parlance")


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", '"text"', "{}", "17", '{"format_version": "1"}', '{"format_version": 0}'),
        *('{"format_version": 1}', '{"format_version": 1, "kind": "lyrics"}', "[" * 100_000, "\ufeff{}"),
    ],
    ids=lambda text: text[:12] or "empty",
)
def test_invalid_config_is_refused(tmp_path: Path, text: str) -> None:
    folder = written(tmp_path)
    (folder / "config.json").write_text(text, encoding="utf-8")
    refused(folder, "config.json")


def test_config_that_is_not_a_text_file_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "config.json").write_bytes(b"\xff\xfe\x00")
    refused(folder, "config.json", "cannot be read")
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    refused(folder, "config.json", "cannot be read")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"kind": "poet"}, "Invalid enum value 'poet' - at `$.kind`"),
        ({"kind": ["lyrics"]}, "Expected `str`, got `array` - at `$.kind`"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"kind": "lyrics"}, "a lyrics needs tokenizers for target"),
        ({"tokenizers": {"target": "word"}}, "needs tokenizers for source and target"),
        ({"tokenizers": ["source", "target"]}, "Expected `object`, got `array` - at `$.tokenizers`"),
        ({"architecture": {}}, "architecture has no name"),
        ({"architecture": ["name"]}, "Expected `object`, got `array` - at `$.architecture`"),
        ({"architecture": None}, "Expected `object`, got `null` - at `$.architecture`"),
        ({"files": ["model.safetensors"]}, "Expected `object`, got `array` - at `$.files`"),
        ({"files": {"model.safetensors": 5}}, "Expected `str`, got `int` - at `$.files[...]`"),
        ({"training": 5}, "Expected `object`, got `int` - at `$.training`"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"max_new_tokens": -5}, "max_new_tokens"),
        ({"max_new_tokens": 10**12}, "max_new_tokens"),
        ({"max_new_tokens": 2.5}, "max_new_tokens"),
        ({"max_new_tokens": "70"}, "max_new_tokens"),
        ({"max_new_tokens": float("nan")}, "max_new_tokens"),
        ({"max_source_tokens": -1}, "max_source_tokens"),
        ({"max_source_tokens": 10**12}, "max_source_tokens"),
        ({"eos": "2"}, "$.eos"),
        ({"eos": -1}, "$.eos"),
        ({"suppressed": [0, -1]}, "$.suppressed"),
        ({"suppressed": "01"}, "$.suppressed"),
        ({"source_suffix": [0.5]}, "$.source_suffix"),
        ({"source_language": ["de"]}, "$.source_language"),
        ({"parameters": "many"}, "$.parameters"),
        ({"parameters": True}, "$.parameters"),
        ({"parameters": 10**30}, "$.parameters"),
        ({"parameters": -1}, "$.parameters"),
        ({"max_new_tokens": True}, "max_new_tokens"),
        ({"scores": {"a": [[[[[[[[1]]]]]]]]}}, "scores must not be nested"),
        ({"target_prefix": None}, "it was not loaded"),
    ],
    ids=str,
)
def test_config_without_a_model_is_refused(tmp_path: Path, changes: dict[str, Any], word: str) -> None:
    folder = written(tmp_path)
    edit(folder, **changes)
    refused(folder, "config.json", word)


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "a/b", "./model.safetensors"])
def test_files_outside_the_folder_are_not_touched(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path)
    edit(folder, files={name: "0" * 64})
    monkeypatch.setattr(checkpoints, "sha256", lambda path: pytest.fail(f"read {path}"))
    refused(folder, "config.json", "outside its folder")


@pytest.mark.parametrize("name", ["..", ".", "", "con\0fig"])
def test_odd_names_of_files(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path)
    edit(folder, files={name: "0" * 64})
    with pytest.raises(CheckpointError):
        checkpoints.read(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "source.json"])
def test_a_file_without_a_checksum_is_not_trusted(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path)
    files = dict(checkpoints.read(folder).config.files)
    del files[name]
    edit(folder, files=files)
    refused(folder, "config.json", f"no checksum for {name}")


@pytest.mark.parametrize("content", ["{}", "[]", "no JSON", '{"kind": "word", "vocabulary": 5, "special": {}}'])
def test_invalid_tokenizer_is_refused(tmp_path: Path, content: str) -> None:
    folder = written(tmp_path)
    (folder / "target.json").write_text(content, encoding="utf-8")
    files = dict(checkpoints.read_config(folder).files)
    edit(folder, files=files | {"target.json": checkpoints.sha256(folder / "target.json")})
    refused(folder, "target.json", "is not a tokenizer that this version reads")


def test_an_unknown_kind_of_tokenizer(tmp_path: Path) -> None:
    folder = written(tmp_path)
    edit(folder, tokenizers={"source": "word", "target": "syllable"})
    refused(folder, "target.json", "'syllable' is not one of")


def test_unreadable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path)
    edit(folder)

    def fail(path: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(checkpoints, "sha256", fail)
    refused(folder, "model.safetensors", "Permission denied")


PAIR = {"source": "en", "target": "de", "source_prefix": [2]}
PLAIN = {"source_language": None, "target_language": None}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        (
            {"language_pairs": {"en": "de"}},
            "Expected `array`, got `object` - at `$.language_pairs`",
        ),
        ({"language_pairs": [{"source": "en", "target": "de"}]}, "Object missing required field `source_prefix`"),
        ({"language_pairs": [{**PAIR, "target": ""}]}, "Expected `str` of length >= 1"),
        ({"language_pairs": [{**PAIR, "source": 5}]}, "Expected `str`, got `int` - at `$.language_pairs[0].source`"),
        ({"language_pairs": [{**PAIR, "source_prefix": "2"}]}, "at `$.language_pairs[0].source_prefix"),
        ({"language_pairs": [{**PAIR, "source_prefix": [-2]}]}, "at `$.language_pairs[0].source_prefix"),
        ({"language_pairs": [PAIR, {**PAIR, "source_prefix": [3]}]}, "lists en → de twice"),
        ({"language_pairs": [PAIR], "target_language": "de"}, "leaves no place for source_language, target_language"),
        ({"language_pairs": [PAIR], "source_prefix": [2]}, "leaves no place for"),
    ],
    ids=str,
)
def test_language_pairs_that_say_no_pair_are_refused(tmp_path: Path, changes: dict[str, Any], word: str) -> None:
    folder = written(tmp_path)
    edit(folder, **{**PLAIN, **changes})
    refused(folder, "config.json", word)
