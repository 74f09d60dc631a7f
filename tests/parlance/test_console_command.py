"""`parlance COMMAND`: the words of the console command, and what its messages call it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parlance import __version__
from parlance.__main__ import DEMO_MODELS, TRAINING_COMMANDS, fetch_models, lacks_models, main
from tests.readme import ROOT
from training.cli.commands import COMMANDS
from training.demo import demo_models
from training.program import CONSOLE_WORDS


def test_help_lists_every_command_of_training(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == main([]) == 0
    text = capsys.readouterr().out
    assert {words[0] for _, words in TRAINING_COMMANDS.values()} == set(COMMANDS)
    for words in ("serve", "keys", *TRAINING_COMMANDS):
        assert f"\n  {words} " in text


def test_words_of_messages_are_the_words_of_the_console_command() -> None:
    spelled = {words[0]: " ".join(CONSOLE_WORDS.get(words[0], words)) for _, words in TRAINING_COMMANDS.values()}
    assert {spelled[words[0]]: words for _, words in TRAINING_COMMANDS.values()} == {
        name: words for name, (_, words) in TRAINING_COMMANDS.items()
    }


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"parlance {__version__} (Python 3.")


def test_image_label_has_the_version() -> None:
    assert f"ARG VERSION={__version__}\n" in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["serv"], "error: serv is no command; did you mean parlance serve? parlance --help lists them.\n"),
        (["xyzzy"], "error: xyzzy is no command; parlance --help lists them.\n"),
        (
            ["train", "--source", "de"],
            "error: Say what to train: parlance train translator, parlance train lyrics, parlance train demo.\n",
        ),
    ],
)
def test_mistake_in_the_command_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == sentence


def test_demo_is_trained_for_a_folder_without_finished_models(tmp_path: Path) -> None:
    assert set(DEMO_MODELS) == set(demo_models.MODELS)
    assert lacks_models(tmp_path / "missing")
    (tmp_path / "mine").mkdir()
    assert lacks_models(tmp_path)
    (tmp_path / "mine" / "config.json").touch()
    assert not lacks_models(tmp_path)
    (tmp_path / DEMO_MODELS[0]).mkdir()
    assert lacks_models(tmp_path)  # an interrupted run left it
    assert lacks_models(tmp_path, "other")
    assert not lacks_models(tmp_path, "other, mine")  # which is served alone


def test_missing_models_are_fetched_before_the_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    calls, status = [], os.EX_TEMPFAIL

    def run_import(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        calls.append(command[1:])
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(subprocess, "run", run_import)
    (tmp_path / "opus-mt-de-en").mkdir()
    (tmp_path / "opus-mt-de-en" / "config.json").touch()
    assert fetch_models("", tmp_path) == fetch_models("Helsinki-NLP/opus-mt-de-en", tmp_path) == 0
    assert calls == []
    assert fetch_models("de-en, en-fr,en-es", tmp_path) == 0  # the hub cannot be reached, and de-en is served
    assert calls == [["-m", "parlance", "import", "en-fr", "en-es", "--into", str(tmp_path)]]
    assert capfd.readouterr().err == "Parlance serves without it; start it again to try once more.\n"
    status = 2
    assert fetch_models("de-xx", tmp_path) == 2


@pytest.mark.parametrize(
    ("module", "usage"),
    [("parlance", "usage: parlance translate "), ("training", "usage: python -m training translate ")],
)
def test_help_spells_the_command_as_it_was_started(module: str, usage: str) -> None:
    output = run(module, "translate", "--help").stdout
    assert output.startswith(usage)
    assert f"\n  {usage.removeprefix('usage: ')}checkpoints/my-de-en < in.txt > out.txt\n" in output


def test_serve_explains_its_options_and_refuses_unknown_ones() -> None:
    output = run("app", "--help").stdout
    assert output.startswith("usage: python -m app [options]\n")
    assert "  --max-text-characters int\n" in output
    refused = run("parlance", "serve", "--prot", "80")
    assert refused.returncode == 2
    assert refused.stderr == (
        "Parlance cannot start: unrecognized arguments: --prot; did you mean --port? See parlance serve --help.\n"
    )


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
