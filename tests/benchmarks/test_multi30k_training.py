"""The reproduction's three steps: in which order, with what, and that none is taken twice."""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import pytest

from benchmarks import multi30k_training as steps
from models import checkpoint as checkpoints
from training.corpora.reading import read_pairs


def arguments(folder: Path, **more: object) -> argparse.Namespace:
    given = {"direction": "de-en", "processes": 1, "recipe": "tiny", "minutes": None, "plain": False, **more}
    return argparse.Namespace(data=folder / "data", out=folder / "out", **given)


def option(command: tuple[str, ...], name: str) -> str:
    return command[command.index(name) + 1]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What is called; each call leaves what the next step looks for."""
    called: list[tuple[str, ...]] = []

    def recorded(*command: str) -> None:
        called.append(command)
        out = Path(option(command, "--out"))
        (out.parent if command[0] == "distil" else out).mkdir(parents=True, exist_ok=True)
        (out if command[0] == "distil" else out / "config.json").write_text("{}", encoding="utf-8")

    monkeypatch.setattr(steps, "command", recorded)
    monkeypatch.setattr(steps, "is_checkpoint", lambda folder: (folder / "config.json").exists())
    return called


def test_a_teacher_its_translations_and_a_student_once_each(tmp_path: Path, commands: list[tuple[str, ...]]) -> None:
    given = arguments(tmp_path, minutes=90.0)
    model = steps.trained(given, 3)
    assert model == tmp_path / "out" / "multi30k-de-en-3"
    teaching, distilling, learning = commands
    teacher = tmp_path / "out" / "teachers" / "multi30k-de-en-3"
    assert (option(teaching, "--out"), option(teaching, "--max-epochs")) == (str(teacher), "20")
    assert distilling[:2] == ("distil", str(teacher))
    train = str(tmp_path / "data" / "train")
    assert option(distilling, "--train") == f"{train}.de.gz,{train}.en.gz"
    corpora = learning[learning.index("--train") + 1 :][:2]
    assert corpora == (f"{train}.de.gz,{train}.en.gz", option(distilling, "--out"))
    assert (option(learning, "--out"), option(learning, "--max-epochs")) == (str(model), "10")
    assert {option(each, "--seed") for each in (teaching, learning)} == {"3"}
    assert {option(each, "--max-minutes") for each in (teaching, learning)} == {"40.5"}
    assert not any("test_2016_flickr" in part for each in commands for part in each)
    assert steps.trained(given, 3) == model
    assert len(commands) == 3


def test_without_a_teacher_there_is_one_training(tmp_path: Path, commands: list[tuple[str, ...]]) -> None:
    assert steps.trained(arguments(tmp_path, plain=True, minutes=90.0), 1) == tmp_path / "out" / "multi30k-de-en-1"
    (only,) = commands
    assert (option(only, "--max-epochs"), option(only, "--max-minutes")) == ("20", "90")


@pytest.mark.slow
def test_the_commands_are_those_of_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "TEACHER_EPOCHS", 1)
    monkeypatch.setattr(steps, "STUDENT_EPOCHS", 1)
    (tmp_path / "data").mkdir()
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    for part, step in (("train", 1), ("val", 3)):
        rows = [[words[(i * step + j) % 7] for j in range(2 + i % 5)] for i in range(60)]
        for language, order in (("de", 1), ("en", -1)):
            text = "".join(" ".join(row[::order]) + f" {i}\n" for i, row in enumerate(rows))
            (tmp_path / "data" / f"{part}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    model = steps.trained(arguments(tmp_path), 1)
    assert checkpoints.read(model).config.kind == "translator"
    taught = read_pairs(str(tmp_path / "out" / "teachers" / "multi30k-de-en-1.jsonl.gz"), ("de", "en"))
    assert set(taught.sources) <= set(read_pairs(steps.pairs(tmp_path / "data", "train", "de-en")).sources)
    assert len(taught) > 30
