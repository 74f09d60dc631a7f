"""The shift in domain: which commands it gives, that test sets stay out of training, and what it makes of outputs."""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import pytest

from benchmarks import domain_shift
from benchmarks.railway_talk import Corpus, corpus

pytestmark = pytest.mark.bench


def option(command: tuple[str, ...], name: str) -> str:
    return command[command.index(name) + 1]


@pytest.fixture
def arguments(tmp_path: Path) -> argparse.Namespace:
    (tmp_path / "data").mkdir()
    for part in ("train", "val"):
        for language in ("de", "en"):
            lines = "".join(f"{language} caption {i} of a dog on the grass\n" for i in range(20))
            (tmp_path / "data" / f"{part}.{language}.gz").write_bytes(gzip.compress(lines.encode()))
    out = tmp_path / "out"
    out.mkdir()
    line = ["--data", str(tmp_path / "data"), "--out", str(out), "--seeds", "1", "2"]
    return domain_shift.parser().parse_args(line)


@pytest.fixture(scope="module")
def parts() -> Corpus:
    return {part: pairs[:60] for part, pairs in corpus().items()}


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, parts: Corpus) -> list[tuple[str, ...]]:
    """The given commands. An evaluation of the base gives sources back, one of a tuned model references; a model from
    nothing translates every second railway sentence well."""
    given: list[tuple[str, ...]] = []

    def recorded(*command: str) -> str:
        given.append(command)
        if command[0] == "translator":
            folder = Path(option(command, "--out"))
            folder.mkdir(parents=True)
            (folder / "config.json").write_text("{}", encoding="utf-8")
            return "{}"
        test, model = option(command, "--test").split(","), Path(command[1]).name
        sources, references = (
            (
                gzip.decompress(Path(side).read_bytes()).decode()
                if side.endswith(".gz")
                else Path(side).read_text("utf-8")
            )
            for side in test
        )
        good = range(0) if model == "base" else range(0, 10_000, 2 if model.startswith("from") else 1)
        pairs = zip(sources.splitlines(), references.splitlines(), strict=True)
        lines = [reference if i in good else source for i, (source, reference) in enumerate(pairs)]
        if "caption" in references and model == "base":
            lines = references.splitlines()
        Path(option(command, "--output")).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return "{}"

    monkeypatch.setattr(domain_shift, "training", recorded)
    monkeypatch.setattr(domain_shift, "corpus", lambda: parts)
    monkeypatch.setattr(domain_shift, "is_checkpoint", lambda folder: (folder / "config.json").exists())
    return given


def test_commands_and_goals(arguments: argparse.Namespace, commands: list[tuple[str, ...]], parts: Corpus) -> None:
    rows, goals = domain_shift.shift(arguments)
    sources = (arguments.out / "railway" / "train.de").read_text(encoding="utf-8").splitlines()
    assert sources == [pair.source for pair in parts["train"]]
    trainings = [command for command in commands if command[0] == "translator"]
    names = ["base", "tuned-with-mixing-1", "tuned-with-mixing-2", "tuned-1", "tuned-2", "from-nothing-1"]
    assert [Path(option(command, "--out")).name for command in trainings] == names
    for command in trainings:
        assert not any("test." in part for part in command)
        if "tuned" in option(command, "--out"):
            assert option(command, "--from") == str(arguments.out / "base")
            assert option(command, "--recipe") == "finetune"
            assert ("--mix" in command) == ("mixing" in option(command, "--out"))
    assert [option(command, "--seed") for command in trainings[1:5]] == ["1", "2", "1", "2"]

    gain, loss, over_scratch = (goal["value"] for goal in goals)
    assert gain > 90
    assert loss == 0
    assert 20 < over_scratch < 80
    assert all(goal["met"] for goal in goals)
    tuned = next(
        row for row in rows if row.get("system") == "tuned with mixing" and row.get("domain") == "railway talk"
    )
    assert tuned["bleu"] == "100.00 ± 0.00"
    assert tuned["bleu, new patterns"] == tuned["bleu, known patterns"] == "100.00 ± 0.00"
    paired = [row for row in rows if row.get("paired") == "tuned with mixing" and row["domain"] == "railway talk"]
    assert paired
    assert all(row["p"] < 0.01 for row in paired)

    before = len(commands)
    assert domain_shift.shift(arguments)[1] == goals
    assert len(commands) == before


def test_a_given_base_is_tuned_and_not_trained(
    arguments: argparse.Namespace, commands: list[tuple[str, ...]], tmp_path: Path
) -> None:
    arguments.base, arguments.both, arguments.seeds = tmp_path / "mine", True, [7]
    folder = arguments.out / "railway"
    made = domain_shift.systems(arguments, folder)
    assert made["base"] == [tmp_path / "mine"]
    assert option(commands[0], "--from") == str(tmp_path / "mine")
    assert commands[-1][commands[-1].index("--train") + 1] == f"{folder}/train.de,{folder}/train.en"
    assert [command[0] for command in commands] == ["translator"] * 4
