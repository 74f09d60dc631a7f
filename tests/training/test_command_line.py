"""The commands: what a user can get wrong ends with exit code 2 and one sentence on standard error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from models import checkpoint as checkpoints
from tests.training.small import lyricist, pairs, text, translator
from training import __main__ as command_line
from training import loop as loops
from training import recipes
from training.__main__ import main
from training.recipes import tiny

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("no_curves")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with corpora; every recipe is a tiny one."""
    monkeypatch.setitem(recipes.TRANSLATORS, "tiny", translator)
    monkeypatch.setitem(recipes.LYRICISTS, "small", lyricist)
    monkeypatch.chdir(tmp_path)
    given = pairs(40)
    lines = [f"{s}\t{t}\n" for s, t in zip(given.sources, given.targets, strict=True)]
    Path("pairs.tsv").write_text("".join(lines))
    Path("song.txt").write_text(text(300))
    return tmp_path


TRANSLATE = ["translator", "--source", "aa", "--target", "bb", "--train", "pairs.tsv", "--out", "m", "--device", "cpu"]
SING = ["lyrics", "--corpus", "song.txt", "--out", "m", "--device", "cpu"]
SHORT = ["--max-epochs", "1"]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The last line on standard error; only a progress bar may stand before it."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    *_, last = captured.err.splitlines()
    assert last.startswith("error: ")
    assert captured.err.endswith(f"{last}\n")
    return last.removeprefix("error: ")


@pytest.mark.parametrize("arguments", [TRANSLATE, SING])
def test_a_model_in_one_command(here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main([*arguments, *SHORT]) == 0
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert dict(checkpoints.read(here / "m").config.scores) == scores


def test_held_out_pairs_and_test_pairs_are_scored_apart(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "t.tsv").write_text("a b c\tC B A\n")
    assert main([*TRANSLATE, *SHORT, "--valid", "pairs.tsv", "--test", "t.tsv"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert {name: values["sentences"] for name, values in scores.items()} == {
        "validation (greedy)": 40,
        "t.tsv (greedy)": 1,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        [*TRANSLATE, "--nonsense"],
        [*TRANSLATE, "--recipe", "huge"],
        [*TRANSLATE, "--seed", "one"],
        [*TRANSLATE, "--device", "tpu"],
        [*SING, "--cell", "cnn"],
        ["translator", "--out", "m"],
        ["evaluate"],
    ],
)
def test_unknown_options_are_told_by_the_parser(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    *usage, last = capsys.readouterr().err.splitlines()
    assert last.startswith("python -m training")
    assert ": error: " in last
    assert usage[0].startswith("usage: ")
    assert not (here / "m").exists()


@pytest.mark.parametrize("arguments", [TRANSLATE, SING])
def test_every_wrong_limit_is_named_in_one_message(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    message = refused(capsys, *arguments, "--max-minutes", "0", "--seed", "-1", "--max-epochs", "0")
    assert message == (
        "This run cannot start: max_epochs must be at least 1, not 0; max_minutes must be more than 0, not 0;"
        " seed must lie in 0..2^63-1, not -1."
    )
    assert not (here / "m").exists()


@pytest.mark.parametrize("minutes", ["nan", "-inf", "-0.1"])
def test_minutes_that_never_pass(here: Path, capsys: pytest.CaptureFixture[str], minutes: str) -> None:
    assert f"max_minutes must be more than 0, not {minutes}" in refused(capsys, *SING, f"--max-minutes={minutes}")


@pytest.mark.parametrize("threads", ["0", "-2"])
def test_threads(here: Path, capsys: pytest.CaptureFixture[str], threads: str) -> None:
    assert f"--threads must be at least 1, not {threads}" in refused(capsys, *SING, "--threads", threads)


@pytest.mark.parametrize("size", ["0", "-1", "3", "10"])
def test_a_vocabulary_too_small(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.setitem(recipes.TRANSLATORS, "tiny", tiny)
    message = refused(capsys, *TRANSLATE, "--vocabulary", size)
    assert message.startswith(f"A vocabulary of {size} pieces cannot hold every character")


def test_no_cuda(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    wanted = "There is no CUDA device here; use --device cpu or --device auto."
    for arguments in (TRANSLATE, SING):
        assert refused(capsys, *arguments, "--device", "cuda") == wanted


def test_out_that_holds_a_model_is_left_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SING, *SHORT]) == 0
    before = {path.name: path.read_bytes() for path in (here / "m").iterdir() if path.is_file()}
    capsys.readouterr()
    assert refused(capsys, *SING) == "m already holds a model; choose another --out, or go on with --resume."
    assert {path.name: path.read_bytes() for path in (here / "m").iterdir() if path.is_file()} == before


def test_out_that_cannot_be_a_model(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "m").write_text("a file")
    assert refused(capsys, *SING) == "m is a file; --out names a folder."
    assert refused(capsys, *SING, "--out", "m/inside").startswith("The run cannot go on: [Errno 20]")
    (here / "broken").symlink_to(here / "nowhere")
    assert refused(capsys, *SING, "--out", "broken").startswith("The run cannot go on: [Errno 17]")


def test_a_readme_of_ones_own_is_not_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "README.md").write_text("mine")
    wanted = ". holds a README.md, which the model card would overwrite; choose another --out."
    assert refused(capsys, *SING, "--out", ".") == wanted
    assert (here / "README.md").read_text() == "mine"


def test_resume_without_a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, *SING, "--resume") == "m has no run to resume; leave --resume out to start one."
    assert not (here / "m").exists()


def test_resume_with_another_seed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SING, *SHORT]) == 0
    capsys.readouterr()
    message = refused(capsys, *SING, "--resume", "--seed", "2")
    assert message == "m was trained with another recipe, corpus or seed; resume it with the same ones."
    assert checkpoints.is_checkpoint(here / "m")


@pytest.mark.parametrize("name", ["d2l-random", "d2l-consecutive"])
def test_a_text_too_short_for_a_batch(here: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (here / "song.txt").write_text("la" * 30)
    wanted = f"The text has 60 characters to train on; recipe {name} needs 65."
    assert refused(capsys, *SING, "--recipe", name) == wanted
    (here / "song.txt").write_text("la" * 40)
    wanted = "This corpus is too small for a single batch of this recipe."
    assert refused(capsys, *SING, "--recipe", name) == wanted
    assert not checkpoints.is_checkpoint(here / "m")
    (here / "song.txt").write_text(text(3000))
    assert main([*SING, "--recipe", name, *SHORT]) == 0  # the failed run is not in the way


def test_pairs_that_are_all_too_long(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "pairs.tsv").write_text("a " * 300 + "\tb\n")
    assert refused(capsys, *TRANSLATE) == "Every pair is longer than 256 tokens: nothing is left to train on."


@pytest.mark.parametrize("which", ["--train", "--valid", "--test"])
def test_a_faulty_corpus(here: Path, capsys: pytest.CaptureFixture[str], which: str) -> None:
    (here / "bad.tsv").write_bytes(b"a\tb\n\xff\tc\n")
    message = refused(capsys, *TRANSLATE, which, "bad.tsv")
    assert message == "bad.tsv is not valid UTF-8: line 2 has a broken character; convert it."
    assert not (here / "m").exists()


def test_symlinked_and_relative_folders_with_odd_names(here: Path) -> None:
    (here / "real folder").mkdir()
    (here / "лінк 🎵").symlink_to("real folder")
    arguments = [*SING, "--out", "./лінк 🎵/../real folder/модель"]
    assert main([*arguments, *SHORT]) == 0
    assert main([*SING, "--out", "лінк 🎵/модель", "--max-epochs", "2", "--resume"]) == 0
    assert checkpoints.read(here / "real folder" / "модель").config.kind == "lyrics"


def test_an_empty_existing_folder_and_a_link_to_one(here: Path) -> None:
    (here / "m").mkdir()
    assert main([*SING, *SHORT]) == 0
    (here / "empty").mkdir()
    (here / "link").symlink_to(here / "empty")
    assert main([*SING, "--out", "link", *SHORT]) == 0
    assert checkpoints.is_checkpoint(here / "empty")
    assert (here / "link").is_symlink()


def test_an_interrupt_is_said_and_resumable(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "SNAPSHOT_EVERY_S", 0.0)
    step, calls = loops.Loop._step, [0]

    def interrupted(self: loops.Loop, *arguments: Any) -> None:
        calls[0] += 1
        if calls[0] == 5:
            raise KeyboardInterrupt
        step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loops.Loop, "_step", interrupted)
        assert main(SING) == 130
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1] == "Stopped. Go on with --resume where it had saved."
    assert captured.out == ""
    assert refused(capsys, *SING) == "m holds an unfinished run; go on with --resume, or choose another --out."
    assert main([*SING, "--resume"]) == 0
    assert main([*SING, "--out", "whole"]) == 0
    weights = [(here / name / "model.safetensors").read_bytes() for name in ("m", "whole")]
    assert weights[0] == weights[1]


def test_max_minutes_replace_the_recipes_epochs_unless_both_are_given(here: Path) -> None:
    arguments = command_line.parser().parse_args([*SING, "--max-minutes", "3"])
    loop = command_line.loop_of(lyricist().loop, arguments)
    assert (loop.max_minutes, loop.max_epochs) == (3.0, 10_000)
    arguments = command_line.parser().parse_args([*SING, "--max-minutes", "3", "--max-epochs", "2"])
    loop = command_line.loop_of(lyricist().loop, arguments)
    assert (loop.max_minutes, loop.max_epochs) == (3.0, 2)


# The same as other processes, which is how people run it --------------------------------------------------


def start(here: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "training", *arguments],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_process_that_fails_says_one_sentence(here: Path) -> None:
    process = start(here, *TRANSLATE, "--train", "missing.tsv")
    out, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert said.startswith("error: missing.tsv does not exist: give SOURCE,TARGET")
    assert said.count("\n") == 1


def test_a_process_that_is_interrupted_and_one_that_goes_on(here: Path) -> None:
    (here / "song.txt").write_text(text(4000))
    arguments = [*SING, "--recipe", "d2l-adam", "--threads", "1"]
    process = start(here, *arguments)
    log = here / "m" / "metrics.jsonl"
    while not log.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert out == ""
    assert said.splitlines()[-1] == "Stopped. Go on with --resume where it had saved."
    assert "Traceback" not in said
    assert not checkpoints.is_checkpoint(here / "m")


def test_languages_that_nobody_can_ask_for_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--source", "", "--target", "auto", "--train", "p.tsv", "--out", str(tmp_path / "out")]
    assert main(["translator", *arguments]) == 2
    said = capsys.readouterr().err
    assert "--source must be a language code such as de or pt-BR, not ''" in said
    assert "--target must be a language code such as de or pt-BR, not 'auto'" in said
