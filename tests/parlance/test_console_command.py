"""`parlance COMMAND`: the words of the console command, and what its messages call it."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.__main__ import main as serve_app
from parlance import __version__
from parlance.__main__ import TRAINING_COMMANDS, address_lines, fetch_models, lacks_models, main
from tests.readme import ROOT
from training.cli.commands import COMMANDS
from training.errors import CONSOLE_WORDS
from training.progress import Outcome, Progress
from training.training_run import closing_lines

TRAINED = ("translator", "lyrics")


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


def test_help_of_train_and_of_a_named_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == main(["help", "train"]) == 0
    once = capsys.readouterr().out
    assert once[: len(once) // 2] == once[len(once) // 2 :]
    assert [line.split()[1] for line in once.splitlines() if line.startswith("  train ")] == [*TRAINED, *TRAINED]
    for words, usage in (
        (["help", "serve"], "parlance serve [options] [MODEL ...]"),
        (["keys", "-h"], "parlance keys "),
    ):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: {usage}")


def test_help_ends_quietly_when_its_reader_goes() -> None:
    command = f"{shlex.quote(sys.executable)} -u -m parlance --help | head -n 1"
    result = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.startswith("usage: parlance COMMAND")
    assert result.stderr == ""


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
            "error: Say what to train: parlance train translator, parlance train lyrics.\n",
        ),
        (
            ["train", "translater", "--source", "de"],
            "error: translater is no model to train; did you mean translator? Say what to train: parlance train"
            " translator, parlance train lyrics.\n",
        ),
        (
            ["translator"],
            "error: translator is no command; did you mean parlance train translator? parlance --help lists them.\n",
        ),
        (["start"], "error: start is no command; did you mean parlance serve? parlance --help lists them.\n"),
        (["score"], "error: score is no command; did you mean parlance evaluate? parlance --help lists them.\n"),
        (
            ["finetune"],
            "error: finetune is no command; did you mean parlance train translator --from FOLDER? parlance --help lists"
            " them.\n",
        ),
        (
            ["convert"],
            "error: convert is no command; did you mean parlance export or parlance import? parlance --help lists"
            " them.\n",
        ),
        (
            ["translater"],
            "error: translater is no command; did you mean parlance translate? parlance --help lists them.\n",
        ),
    ],
)
def test_mistake_in_the_command_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == sentence


def test_folder_without_checkpoints_lacks_models(tmp_path: Path) -> None:
    assert lacks_models(tmp_path / "missing")
    (tmp_path / "mine").mkdir()
    assert lacks_models(tmp_path)
    (tmp_path / "mine" / "config.json").touch()
    assert not lacks_models(tmp_path)


def test_addresses_are_ones_that_a_browser_opens() -> None:
    every = address_lines("0.0.0.0", 80)
    assert every[1].startswith("Parlance starts on http://127.0.0.1:80 ")
    assert every[-1] == "  from other machines        http://NAME:80, where NAME is the name or address of this one"
    assert address_lines("::", 80) == every
    assert "http://[::1]:80/docs" in "\n".join(address_lines("::1", 80))
    assert not any("other machines" in line for line in address_lines("127.0.0.1", 80))


def test_missing_models_are_fetched_before_the_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    calls, status = [], os.EX_TEMPFAIL

    def run_import(command: list[str], stdout: int) -> int:
        calls.append(command[1:])
        return status

    monkeypatch.setattr("parlance.__main__.run_to_end", run_import)
    (tmp_path / "opus-mt-de-en").mkdir()
    (tmp_path / "opus-mt-de-en" / "config.json").touch()
    assert fetch_models("", tmp_path) == fetch_models("Helsinki-NLP/opus-mt-de-en", tmp_path) == 0
    assert calls == []
    assert fetch_models("de-en, en-fr,en-es", tmp_path) == 0  # the hub cannot be reached, and de-en is served
    assert calls == [["-m", "parlance", "import-process", "en-fr", "en-es", "--into", str(tmp_path)]]
    assert capfd.readouterr().err == (
        "Parlance is not ready without it, and serves the others; start it again to try once more.\n"
    )
    status = 2
    assert fetch_models("de-xx", tmp_path) == 0  # a name that the hub does not know
    assert capfd.readouterr().err == (
        "Parlance is not ready without it, and serves the others; start it again with another name.\n"
    )
    status = 139  # SIGSEGV, in a library that reads a hostile file
    assert fetch_models("en-es", tmp_path) == 0
    assert capfd.readouterr().err.startswith("error: The import was ended (SIGSEGV), as a damaged or hostile file")
    for interrupted in (130, 143):
        status = interrupted
        assert fetch_models("en-es", tmp_path) == interrupted


def test_folder_that_is_served_for_a_name_on_the_hub_is_named(
    tiny_checkpoints: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fetch_models("someone/tiny-de-en, tiny-lyrics", tiny_checkpoints) == 0
    assert capfd.readouterr().err == (
        f"{tiny_checkpoints}/tiny-de-en is served for someone/tiny-de-en, and it was trained, not imported: to have the"
        " model of the hub, give this folder another name.\n"
    )


@pytest.mark.parametrize(
    ("module", "usage"),
    [("parlance", "usage: parlance translate "), ("training", "usage: python -m training translate ")],
)
@pytest.mark.slow  # processes that import PyTorch; the next test looks at the texts
def test_help_spells_the_command_as_it_was_started(module: str, usage: str) -> None:
    output = run(module, "translate", "--help").stdout
    assert output.startswith(usage)
    assert f"\n  {usage.removeprefix('usage: ')}checkpoints/my-de-en < in.txt > out.txt\n" in output


def test_help_of_a_training_command_spells_the_console_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/parlance", "translate", "--help"])
    with pytest.raises(SystemExit, match="0"):
        main(sys.argv[1:])
    output = capsys.readouterr().out
    assert output.startswith("usage: parlance translate ")
    assert "\n  parlance translate checkpoints/my-de-en < in.txt > out.txt\n" in output


def test_keys_spells_its_help_as_it_was_started(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["keys", "add", "--help"])
    assert capsys.readouterr().out.startswith("usage: parlance keys add ")


def test_trained_model_is_served_by_the_program_that_trained_it(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = Outcome({}, Progress(), ended_by="the limit of 2 epochs")

    def last_line(program: str, out: str) -> str:
        monkeypatch.setattr(sys, "argv", [program])
        return list(closing_lines(Path(out), outcome, {}))[-1]

    console, module = "/usr/bin/parlance", "/usr/lib/training/__main__.py"
    assert (
        last_line(console, "checkpoints/m") == "Next: parlance evaluate checkpoints/m --test FILE, or parlance serve."
    )
    assert last_line(console, "m").endswith("or move it to checkpoints/ and parlance serve.")
    assert last_line(module, "checkpoints/m") == (
        "Next: python -m training evaluate checkpoints/m --test FILE, or make serve."
    )


def test_serve_explains_its_options_and_refuses_unknown_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = run("app", "--help").stdout
    assert output.startswith("usage: python -m app [options]\n")
    assert "  --max-text-characters int\n" in output
    monkeypatch.setattr(sys, "argv", ["parlance", "serve"])
    with pytest.raises(SystemExit, match="0"):
        main(["serve", "-V"])
    assert capsys.readouterr().out == f"parlance {__version__}\n"
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--prot", "80"])
    assert capsys.readouterr().err == (
        "Parlance cannot start: unrecognized arguments: --prot; did you mean --port? See parlance serve --help.\n"
    )


@pytest.mark.parametrize("command", [lambda: main(sys.argv[1:]), serve_app])
def test_server_that_cannot_start_ends_with_status_2(
    command: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*options: str) -> str:
        words = [] if command is serve_app else ["serve"]
        monkeypatch.setattr(sys, "argv", ["parlance", *words, "--checkpoints", str(tmp_path), *options])
        with pytest.raises(SystemExit) as end:
            command()
        assert end.value.code == 2
        out, error = capsys.readouterr()
        assert out == ""  # no model is copied first
        return error

    assert refused("-p", "x") == 'Parlance cannot start: --port is "x": it should be a valid integer.\n'
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert refused("--port", str(port)) == (
            f"Parlance cannot start: port {port} of 127.0.0.1 is in use; stop the program that listens there, or choose"
            " another --port.\n"
        )
    assert "it cannot listen on 192.0.2.1, port 8000 (" in refused("--host", "192.0.2.1")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_process_that_is_waited_for(number: signal.Signals, tmp_path: Path) -> None:
    """As of an import, which may have children of its own."""
    child = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    script = (
        f"import sys; from parlance.__main__ import run_to_end; sys.exit(run_to_end([sys.executable, '-c', {child!r}]))"
    )
    waiting = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )
    pid = ""
    for _ in range(600):
        if (pid := (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else "") or waiting.poll():
            break
        time.sleep(0.05)
    waiting.send_signal(number)
    assert waiting.wait(30) == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
