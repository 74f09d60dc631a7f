"""The command `python -m app.keys`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.access.key_file import KeyRing
from app.access.rate_limits import Quota, Rate
from app.keys import main


def test_new_key_is_printed_once_and_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "keys"
    limits = ["--rate-limit", "60/minute", "--quota", "500/month"]
    assert main(["--file", str(file), "add", "web shop", *limits]) == 0
    key = capsys.readouterr().out.strip()
    assert key not in file.read_text()
    caller = KeyRing(file).find(key)
    assert caller is not None
    assert (caller.name, caller.scopes) == ("web shop", frozenset({"use"}))
    assert (caller.rates, caller.quotas) == ((Rate(60, "minute"),), (Quota(500, "month"),))

    assert main(["--file", str(file), "add", "deploy", "--scope", "admin"]) == 0
    capsys.readouterr()
    assert main(["--file", str(file), "list"]) == 0
    listed = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(name, scopes, limits) for name, scopes, _, *limits in listed] == [
        ("web shop", "use", ["60/minute", "500/month"]),
        ("deploy", "admin", []),
    ]
    assert key not in str(listed)

    assert main(["--file", str(file), "remove", "web shop"]) == 0
    assert KeyRing(file).find(key) is None
    assert [json.loads(line)["name"] for line in file.read_text().splitlines()] == ["deploy"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "shop"], 'There is a key "shop" already'),
        (["add", "a\tb"], "A name has 1 to 64 printable characters, and is not anonymous or admin."),
        (["add", "anonymous"], "is not anonymous or admin."),
        (["add", "b", "--rate-limit", "often"], "--rate-limit often cannot be used: it takes a number"),
        (["add", "b", "--quota", "5/hour"], "--quota 5/hour cannot be used"),
        (["remove", "b"], 'There is no key "b" in'),
    ],
)
def test_invalid_commands_are_refused_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    file = tmp_path / "keys"
    main(["--file", str(file), "add", "shop"])
    before = file.read_text()
    capsys.readouterr()
    assert main(["--file", str(file), *arguments]) == 2
    output = capsys.readouterr()
    assert words in output.err
    assert (output.out, file.read_text()) == ("", before)


def test_command_without_a_word_names_the_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().err.endswith(
        "the following arguments are required: COMMAND; python -m app.keys --help explains it.\n"
    )


def test_missing_file_option_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("PARLANCE_KEYS_FILE", raising=False)
    assert main(["list"]) == 2
    assert capsys.readouterr().err == "error: There is no keys file: set PARLANCE_KEYS_FILE, or give --file.\n"
    monkeypatch.setenv("PARLANCE_KEYS_FILE", str(tmp_path / "keys"))
    assert main(["list"]) == 2
    assert capsys.readouterr().err == f"error: The keys file {tmp_path / 'keys'} does not exist.\n"
    (tmp_path / "keys").write_text("broken")
    assert main(["list"]) == 2
    assert "is no JSON object" in capsys.readouterr().err


def test_file_option_is_taken_behind_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "keys.jsonl")
    assert main(["add", "anna", "--file", file]) == 0
    monkeypatch.setenv("PARLANCE_KEYS_FILE", str(tmp_path / "another"))
    assert main(["add", "NAME", "--scope", "admin", f"--file={file}"]) == 0
    capsys.readouterr()
    assert main(["list", "--file", file]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["anna", "NAME"]
    assert main(["remove", "anna", "--file", file]) == 0
    assert main(["--file", file, "list"]) == 0
    assert capsys.readouterr().out.startswith("NAME\tadmin\t")


@pytest.mark.parametrize("words", [["list"], ["remove", "anna"]])
def test_missing_keys_file_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    file = tmp_path / "missing.jsonl"
    assert main(["--file", str(file), *words]) == 2
    assert capsys.readouterr() == ("", f"error: The keys file {file} does not exist.\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--fiel", "k", "list"], "--fiel is no option; did you mean --file? keys list --help lists them."),
        (["add", "anna", "--scoep=admin"], "--scoep is no option; did you mean --scope? keys add --help lists them."),
        (["--what"], "--what is no option; keys --help lists them."),
    ],
)
def test_unknown_option_is_named_with_the_nearest(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments, "keys") == 2
    assert capsys.readouterr() == ("", f"error: {sentence}\n")
