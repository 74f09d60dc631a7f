"""The reproduction's three steps: in which order, with what, and that none is taken twice."""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import pytest

from benchmarks import corpora
from benchmarks import multi30k_training as steps
from models import checkpoint as checkpoints
from training.data.corpus_loading import read_pairs


def arguments(folder: Path, **more: object) -> argparse.Namespace:
    given: dict[str, object] = {"direction": "de-en", "processes": 1, "teachers": 1, "vocab_size": None}
    given |= {"student_set": [], "seeds": [1], "at_once": 1}
    return argparse.Namespace(**{**given, "student_epochs": 10, "data": folder / "data", "out": folder / "out", **more})


def option(command: tuple[str, ...], name: str) -> str:
    return command[command.index(name) + 1]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The called commands; each call writes the files that the next step expects."""
    called: list[tuple[str, ...]] = []

    def recorded(*command: str) -> None:
        called.append(command)
        out = Path(option(command, "--out"))
        (out.parent if command[0] == "distil" else out).mkdir(parents=True, exist_ok=True)
        (out if command[0] == "distil" else out / "config.json").write_text("{}", encoding="utf-8")

    monkeypatch.setattr(steps, "training", recorded)
    monkeypatch.setattr(steps, "is_checkpoint", lambda folder: (folder / "config.json").exists())
    return called


def test_a_teacher_of_each_direction_what_they_make_and_a_student(
    tmp_path: Path, commands: list[tuple[str, ...]]
) -> None:
    given = arguments(tmp_path, seeds=[3])
    (model,) = steps.trained(given).values()
    assert model == tmp_path / "out" / "multi30k-de-en-3"
    assert [command[0] for command in commands] == ["translator", "distil", "translator", "distil", "translator"]
    train, teachers = tmp_path / "data" / "train", tmp_path / "out" / "teachers"
    for direction, teaching, distilling in (("de-en", *commands[:2]), ("en-de", *commands[2:4])):
        source, target = direction.split("-")
        name = str(teachers / f"multi30k-{direction}-1")
        assert (option(teaching, "--source"), option(teaching, "--target")) == (source, target)
        assert (option(teaching, "--out"), option(teaching, "--max-epochs")) == (name, "20")
        assert distilling[1] == name
        corpus = f"{train}.{source}.gz,{train}.{target}.gz"
        assert option(teaching, "--train") == option(distilling, "--train") == corpus
    learning = commands[4]
    corpora = learning[learning.index("--train") + 1 :][:4]
    made = [option(commands[place], "--out") for place in (1, 3)]
    assert corpora == (f"{train}.de.gz,{train}.en.gz", *made, "--valid")
    assert (option(learning, "--out"), option(learning, "--max-epochs")) == (str(model), "10")
    trainings = [command for command in commands if command[0] == "translator"]
    assert [option(training, "--seed") for training in trainings] == ["1", "1", "3"]
    assert not any("test_2016_flickr" in part for command in commands for part in command)
    assert steps.trained(given) == {3: model}
    assert len(commands) == 5
    more = arguments(tmp_path, seeds=[3, 2])
    assert steps.trained(more) == {3: model, 2: tmp_path / "out" / "multi30k-de-en-2"}
    assert (len(commands), option(commands[5], "--seed")) == (6, "2")
    assert commands[5][commands[5].index("--train") + 1 :][:4] == corpora


def test_several_teachers_and_a_student_with_options_of_its_own(
    tmp_path: Path, commands: list[tuple[str, ...]]
) -> None:
    options = {"teachers": 2, "vocab_size": 10_000, "student_set": ["network.d_model=192", "patience=3"]}
    steps.trained(arguments(tmp_path, **options))
    *made, learning = commands
    trainings = [command for command in made if command[0] == "translator"]
    assert [option(training, "--seed") for training in trainings] == ["1", "1", "2", "2"]
    assert [option(training, "--source") for training in trainings] == ["de", "en"] * 2
    assert {option(training, "--vocab-size") for training in trainings} == {"10000"}
    assert option(learning, "--tokenizer") == str(tmp_path / "out" / "teachers" / "multi30k-de-en-1")
    assert not any("--set" in training for training in trainings)
    assert [learning[i + 1] for i, part in enumerate(learning) if part == "--set"] == options["student_set"]
    assert len({part for part in learning if part.endswith(".jsonl.gz")}) == 4


def test_moses_text_is_prepared_once(tmp_path: Path) -> None:
    pytest.importorskip("sacremoses", reason="an extra of the benchmarks")
    (tmp_path / "data").mkdir()
    for part in steps.PARTS:
        for language in ("de", "en"):
            text = "„Ein Mann,“ sagt sie; zwei  Hunde.\n\nDas ist ein BALL!\n"
            (tmp_path / "data" / f"{part}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    folder = steps.prepare_moses(tmp_path / "data", tmp_path / "out", "en-de")
    made = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert len(made) == 6
    with gzip.open(folder / "train.de.gz", "rt", encoding="utf-8") as lines:
        assert lines.read() == '" ein mann " , sagt sie ; zwei hunde .\n\ndas ist ein ball !\n'
    steps.prepare_moses(tmp_path / "data", tmp_path / "out", "de-en")
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == made


@pytest.mark.slow
def test_commands_are_training_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "TEACHER_EPOCHS", 1)
    (tmp_path / "data").mkdir()
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    for part, step in (("train", 1), ("val", 3)):
        rows = [[words[(i * step + j) % 7] for j in range(2 + i % 5)] for i in range(60)]
        for language, order in (("de", 1), ("en", -1)):
            text = "".join(" ".join(row[::order]) + f" {i}\n" for i, row in enumerate(rows))
            (tmp_path / "data" / f"{part}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    (model,) = steps.trained(arguments(tmp_path, student_epochs=1)).values()
    assert checkpoints.read(model).config.kind == "translator"
    people = read_pairs(corpora.pairs(tmp_path / "data", "train", "de-en"))
    teachers = tmp_path / "out" / "teachers"
    forward, back = (
        read_pairs(str(teachers / f"multi30k-{direction}-1.jsonl.gz"), ("de", "en")) for direction in ("de-en", "en-de")
    )
    assert set(forward.sources) <= set(people.sources)
    assert set(back.targets) <= set(people.targets)
    assert min(len(forward), len(back)) > 30
