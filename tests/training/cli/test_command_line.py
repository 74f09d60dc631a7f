"""The commands: what a user can get wrong ends with exit code 2 and one sentence on standard error."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
import torch

from models import checkpoint as checkpoints
from models.backends.torch.cuda_report import CudaReport
from tests.training.cli.commands import SHORT, SING, TRANSLATE, refused
from tests.training.small import text
from training.__main__ import main, parser
from training.cli import command_options
from training.cli.command_options import build_request
from training.config import recipes

TINY = recipes.TRANSLATORS["tiny"]
pytestmark = pytest.mark.usefixtures("no_curves")


@pytest.mark.parametrize("arguments", [TRANSLATE, SING])
def test_a_model_in_one_command(here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main([*arguments, *SHORT]) == 0
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert dict(checkpoints.read(here / "m").config.scores) == scores


def test_held_out_pairs_and_test_pairs_are_scored_apart(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "t.tsv").write_text("a b c\tC B A\n")
    assert main([*TRANSLATE, *SHORT, "--valid", "pairs.tsv", "--test", "t.tsv", "--clean", "off"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert {name: values["sentences"] for name, values in scores.items()} == {
        "validation (greedy)": 40,
        "t.tsv (greedy)": 1,
        "t.tsv (beam 5)": 1,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        [*TRANSLATE, "--device", "tpu"],
        ["import-marian"],
    ],
)
def test_a_command_line_that_cannot_be_parsed_is_refused_in_one_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as excinfo:
        main(arguments)
    assert excinfo.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"error: .+; see python -m training[ a-z-]* --help", line)
    assert not (here / "m").exists()


@pytest.mark.parametrize(
    ("arguments", "clause"),
    [
        (["train"], "train is no command, did you mean translator or lyrics?"),
        (["distill"], "distill is no command, did you mean distil?"),
    ],
)
def test_words_of_other_tools_are_refused_with_ours(
    capsys: pytest.CaptureFixture[str], arguments: list[str], clause: str
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert capsys.readouterr().err.startswith(f"error: {clause}; see ")


def test_set_takes_several_values(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, *TRANSLATE, "--set", "loop.patience=-1", "network.heads=0")
    assert "loop.patience must be at least 0, not -1" in message
    assert "network.heads must be a whole number of at least 1, not 0" in message


def test_a_reader_that_has_gone_ends_a_command_quietly(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["inspect-corpus", "pairs.tsv", "--source", "aa", "--target", "bb"]) == 141


@pytest.mark.parametrize("arguments", [TRANSLATE, SING])
def test_every_wrong_limit_is_named_in_one_message(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    message = refused(capsys, *arguments, "--max-minutes", "0", "--seed", "-1", "--max-epochs", "0")
    assert message == (
        "This cannot start: loop.max_epochs must be at least 1, not 0; loop.max_minutes must be more than 0,"
        " not 0; loop.seed must lie in 0..2^63-1, not -1."
    )
    assert not (here / "m").exists()


@pytest.mark.parametrize(
    ("minutes", "problem"), [("nan", "a number or none"), ("-inf", "a number or none"), ("-0.1", "more than 0")]
)
def test_max_minutes_must_be_positive(
    here: Path, capsys: pytest.CaptureFixture[str], minutes: str, problem: str
) -> None:
    assert f"max_minutes must be {problem}, not " in refused(capsys, *SING, f"--max-minutes={minutes}")


@pytest.mark.parametrize("threads", ["0", "-2"])
def test_thread_count_must_be_positive(here: Path, capsys: pytest.CaptureFixture[str], threads: str) -> None:
    assert f"--threads must be at least 1, not {threads}" in refused(capsys, *SING, "--threads", threads)


@pytest.mark.parametrize("size", ["3", "10"])
def test_a_vocabulary_too_small(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.setitem(recipes.TRANSLATORS, "tiny", TINY)
    message = refused(capsys, *TRANSLATE, "--vocab-size", size)
    assert message.startswith(f"A vocabulary of {size} pieces cannot hold every character")


def test_no_cuda(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    problem = "the NVIDIA driver on your system is too old (found version 12020)"
    monkeypatch.setattr(command_options, "cuda_report", lambda: CudaReport("2.13.0", "13.0", "535.54", [], problem))
    expected = f"There is no CUDA device here: {problem}; use --device cpu or --device auto."
    for arguments in (TRANSLATE, SING):
        assert refused(capsys, *arguments, "--device", "cuda") == expected


@pytest.mark.parametrize(("name", "least"), [("d2l-random", 32 * 35 + 1), ("d2l-consecutive", 32 * 36), ("small", 26)])
def test_a_text_too_short_for_a_batch(here: Path, capsys: pytest.CaptureFixture[str], name: str, least: int) -> None:
    """The sentence names a length of the whole text that is enough, and no shorter one is."""
    (here / "song.txt").write_text("la" * 10)
    problem = refused(capsys, *SING, "--recipe", name)
    needed = int(re.search(r"needs ([\d,]+)", problem)[1].replace(",", ""))  # type: ignore[index]
    assert needed == least
    assert problem.startswith("The text has 20 characters, and a batch of ")
    (here / "song.txt").write_text(text(needed - 1))
    assert "needs" in refused(capsys, *SING, "--recipe", name)
    assert not checkpoints.is_checkpoint(here / "m")
    (here / "song.txt").write_text(text(needed))
    assert main([*SING, "--recipe", name, "--max-epochs", "1", "--set", "network.hidden=8"]) == 0


def test_pairs_that_are_all_too_long(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "pairs.tsv").write_text("a " * 300 + "\tb\n" + "c " * 300 + "\td\n")
    assert refused(capsys, *TRANSLATE) == "Every pair is longer than 256 tokens: nothing is left to train on."


@pytest.mark.parametrize("which", ["--train", "--valid", "--test"])
def test_a_faulty_corpus(here: Path, capsys: pytest.CaptureFixture[str], which: str) -> None:
    (here / "bad.tsv").write_bytes(b"a\tb\n\xff\tc\n")
    message = refused(capsys, *TRANSLATE, which, "bad.tsv")
    assert message == "bad.tsv is not valid UTF-8: line 2 has a broken character; convert it."
    assert not (here / "m").exists()


def test_utf_16_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "excel.txt").write_text("a\tb\n", encoding="utf-16")
    assert refused(capsys, *TRANSLATE, "--train", "excel.txt") == (
        "excel.txt is UTF-16, and texts are read as UTF-8: convert it (iconv -f UTF-16 -t UTF-8 excel.txt), or save it"
        " as UTF-8."
    )


def test_max_minutes_replace_the_epochs_of_a_new_networks_recipe_unless_both_are_given(here: Path) -> None:
    for given, expected in ((["--max-minutes", "3"], 10_000), (["--max-minutes", "3", "--max-epochs", "2"], 2)):
        arguments = parser().parse_args([*SING, *given])
        arguments.unknown = []
        config = build_request(arguments, recipes.LYRICISTS, "small", {"corpus": "song.txt"}, {}).config
        assert (config.loop.max_minutes, config.loop.max_epochs) == (3.0, expected)


def test_invalid_language_codes_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--source", "", "--target", "auto", "--train", "p.tsv", "--out", str(tmp_path / "out")]
    assert main(["translator", *arguments]) == 2
    output = capsys.readouterr().err
    assert "source_language must be a language code such as de or pt-BR, not ''" in output
    assert "target_language must be a language code such as de or pt-BR, not 'auto'" in output


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")]
)
def test_out_of_memory_is_reported_in_one_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def without_memory(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("training.cli.train_commands.train_lyricist", without_memory)
    (here / "song.txt").write_text("la la la\n" * 40, encoding="utf-8")
    expected = "This machine has too little memory for this; a smaller recipe, batch or corpus needs less."
    assert refused(capsys, *SING) == expected
