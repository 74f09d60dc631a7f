"""The checkpoint folder: what is refused, with which sentence, and what an interrupted write leaves."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointConfig, CheckpointError
from models.tokenizer import SpecialTokens, VocabularyTokenizer

SOURCE = VocabularyTokenizer("word", ["<pad>", "<unk>", "hello", "world"], SpecialTokens(0, 1))
TARGET = VocabularyTokenizer("character", ["<pad>", "<s>", "</s>", "a", "b"], SpecialTokens(0, None, 1, 2))
CONFIG = CheckpointConfig(
    kind="translator",
    architecture={"name": "transformer", "d_model": 8},
    source_language="en",
    target_language="de",
    source_suffix=(0,),
    target_prefix=(1,),
    eos=2,
    suppressed=(0, 1),
    max_source_tokens=50,
    max_new_tokens=70,
    parameters=123,
    training={"seed": 1},
    scores={"bleu": 12.5},
)


def stage(folder: Path, weights: bytes = b"weights") -> Path:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "README.md").write_text("A card.", encoding="utf-8")
    return folder


def written(tmp_path: Path, config: CheckpointConfig = CONFIG) -> Path:
    folder = tmp_path / "checkpoints" / "tiny"
    checkpoints.write(stage(tmp_path / "staging"), folder, config, {"source": SOURCE, "target": TARGET})
    return folder


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | changes), encoding="utf-8")


def refused(folder: Path, file: str, *words: str) -> None:
    """One sentence that names the file and says these words."""
    with pytest.raises(CheckpointError) as caught:
        checkpoints.read(folder)
    sentence = str(caught.value)
    assert str(folder / file) in sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert not sentence.endswith("..")
    for word in words:
        assert word in sentence


# Whole folders ------------------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = written(tmp_path)
    found = checkpoints.read(folder)
    assert replace(found.config, tokenizers={}, files={}) == CONFIG
    assert found.config.tokenizers == {"source": "word", "target": "character"}
    assert set(found.config.files) == {"model.safetensors", "source.json", "target.json"}
    assert (found.name, found.weights) == ("tiny", folder / "model.safetensors")
    assert found.source_ids("hello moon world") == (2, 1, 3, 0)
    assert found.target_ids("ab") == (1, 3, 4)
    assert found.decode([3, 4, 2]) == "ab"
    assert sorted(path.name for path in folder.iterdir()) == [
        *("README.md", "config.json", "model.safetensors", "source.json", "target.json")
    ]
    assert list((tmp_path / "staging").iterdir()) == []


def test_the_card_may_be_edited(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "README.md").write_text("Another card.", encoding="utf-8")
    (folder / "notes.txt").write_text("New.", encoding="utf-8")
    checkpoints.read(folder)
    (folder / "README.md").unlink()
    checkpoints.read(folder)


def test_a_lyricist_has_one_tokenizer(tmp_path: Path) -> None:
    folder = tmp_path / "lyrics"
    config = CheckpointConfig(kind="lyrics", architecture={"name": "recurrent"})
    checkpoints.write(stage(tmp_path / "staging"), folder, config, {"target": TARGET})
    found = checkpoints.read(folder)
    assert set(found.tokenizers) == {"target"}
    assert found.target_ids("ba") == (4, 3)


@pytest.mark.parametrize(("source", "most", "expected"), [(0, 100, 20), (5, 100, 30), (60, 100, 100), (40, 100, 100)])
def test_how_long_a_translation_may_grow(source: int, most: int, expected: int) -> None:
    assert checkpoints.new_token_limit(source, most) == expected


# Refused folders ----------------------------------------------------------------------------------------


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


def test_no_folder_at_all(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "config.json", "is missing", "is not a checkpoint")
    assert not checkpoints.is_checkpoint(tmp_path / "nowhere")


def test_a_newer_format_says_what_to_do(tmp_path: Path) -> None:
    folder = written(tmp_path)
    edit(folder, format_version=2, something_new=True)
    refused(folder, "config.json", "format 2", "up to 1", "upgrade Parlance")


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", '"text"', "{}", "17", '{"format_version": "1"}', '{"format_version": 0}'),
        *('{"format_version": 1}', '{"format_version": 1, "kind": "lyrics"}', "[" * 100_000, "\ufeff{}"),
    ],
    ids=lambda text: text[:12] or "empty",
)
def test_a_config_that_is_none(tmp_path: Path, text: str) -> None:
    folder = written(tmp_path)
    (folder / "config.json").write_text(text, encoding="utf-8")
    refused(folder, "config.json")


def test_a_config_that_is_no_text_or_no_file(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "config.json").write_bytes(b"\xff\xfe\x00")
    refused(folder, "config.json", "cannot be read")
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    refused(folder, "config.json", "cannot be read")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"kind": "poet"}, "neither translator nor lyrics"),
        ({"kind": ["lyrics"]}, "neither translator nor lyrics"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"kind": "lyrics"}, "a lyrics needs tokenizers for target"),
        ({"tokenizers": {"target": "word"}}, "needs tokenizers for source and target"),
        ({"tokenizers": ["source", "target"]}, "tokenizers must be an object"),
        ({"architecture": {}}, "architecture has no name"),
        ({"architecture": ["name"]}, "architecture must be an object"),
        ({"architecture": None}, "architecture must be an object"),
        ({"files": ["model.safetensors"]}, "files must be an object"),
        ({"files": {"model.safetensors": 5}}, "files must map names to checksums"),
        ({"training": 5}, "training must be an object"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"max_new_tokens": -5}, "max_new_tokens"),
        ({"max_new_tokens": 10**12}, "max_new_tokens"),
        ({"max_new_tokens": 2.5}, "max_new_tokens"),
        ({"max_new_tokens": "70"}, "max_new_tokens"),
        ({"max_new_tokens": float("nan")}, "max_new_tokens"),
        ({"max_source_tokens": -1}, "max_source_tokens"),
        ({"max_source_tokens": 10**12}, "max_source_tokens"),
        ({"eos": "2"}, "eos must be"),
        ({"eos": -1}, "eos must be"),
        ({"suppressed": [0, -1]}, "suppressed must be"),
        ({"suppressed": "01"}, "suppressed must be"),
        ({"source_suffix": [0.5]}, "source_suffix must be"),
        ({"source_language": ["de"]}, "source_language must be"),
        ({"parameters": "many"}, "parameters must be"),
        ({"target_prefix": None}, "it was not loaded"),
    ],
    ids=str,
)
def test_a_config_that_describes_no_model(tmp_path: Path, changes: dict[str, Any], word: str) -> None:
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
def test_a_tokenizer_that_is_none(tmp_path: Path, content: str) -> None:
    folder = written(tmp_path)
    (folder / "target.json").write_text(content, encoding="utf-8")
    files = dict(checkpoints.read_config(folder).files)
    edit(folder, files=files | {"target.json": checkpoints.sha256(folder / "target.json")})
    refused(folder, "target.json", "is not a tokenizer that this version reads")


def test_an_unknown_kind_of_tokenizer(tmp_path: Path) -> None:
    folder = written(tmp_path)
    edit(folder, tokenizers={"source": "word", "target": "syllable"})
    refused(folder, "target.json", "'syllable' is not one of")


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path)

    def fail(path: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(checkpoints, "sha256", fail)
    refused(folder, "model.safetensors", "Permission denied")


# Interrupted writes -------------------------------------------------------------------------------------

OPERATIONS = [
    *[(Path, name) for name in ("write_text", "write_bytes", "open", "mkdir", "unlink", "replace")],
    (os, "fsync"),
]


def full_disk(monkeypatch: pytest.MonkeyPatch, after: int, error: BaseException) -> Callable[[], int]:
    """Every file operation after so many fails. How many were tried."""
    count = 0

    def counted(real: Any) -> Any:
        def operation(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count > after:
                raise error
            return real(*args, **kwargs)

        return operation

    for owner, name in OPERATIONS:
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    return lambda: count


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("before", ["nothing", "an older checkpoint"])
def test_an_interrupted_write_leaves_a_whole_checkpoint_or_none(
    tmp_path: Path, before: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # slow, and the disk is not what is tested
    outcomes = list[str]()
    for after in range(100):
        folder = tmp_path / str(after) / "model"
        if before != "nothing":
            old = stage(tmp_path / str(after) / "old", b"old weights")
            checkpoints.write(old, folder, replace(CONFIG, scores={"age": "old"}), {"source": TARGET, "target": SOURCE})
        staging = stage(tmp_path / str(after) / "staging", b"new weights")
        with pytest.MonkeyPatch.context() as patch:
            full_disk(patch, after, error)
            try:
                checkpoints.write(
                    staging, folder, replace(CONFIG, scores={"age": "new"}), {"source": SOURCE, "target": TARGET}
                )
                complete = True
            except (OSError, KeyboardInterrupt):
                complete = False
        if checkpoints.is_checkpoint(folder):
            age = checkpoints.read(folder).config.scores["age"]
            assert (folder / "model.safetensors").read_bytes() == f"{age} weights".encode()
            outcomes.append(age)
        else:
            assert not complete
            outcomes.append("none")
        if complete:
            break
        again = stage(tmp_path / str(after) / "again", b"new weights")
        checkpoints.write(again, folder, CONFIG, {"source": SOURCE, "target": TARGET})
        checkpoints.read(folder)
    assert complete
    assert outcomes[-1] == "new"
    assert len(outcomes) > 15, "every file operation failed once"
    first = "old" if before != "nothing" else "none"
    changed = outcomes.index("none") if first == "old" else 0
    assert outcomes == [first] * changed + ["none"] * (len(outcomes) - changed - 1) + ["new"]


def test_the_config_is_the_last_to_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrived, real = list[str](), Path.replace

    def watched(path: Path, to: Path) -> Path:
        arrived.append(to.name)
        return real(path, to)

    monkeypatch.setattr(Path, "replace", watched)
    written(tmp_path)
    assert arrived[-1] == "config.json"
    assert set(arrived[:-1]) == {"README.md", "model.safetensors", "source.json", "target.json"}


def test_the_front_end_loads_no_torch() -> None:
    code = "import sys, models.tokenizer, models.checkpoint; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    root = Path(__file__).parents[2]
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
