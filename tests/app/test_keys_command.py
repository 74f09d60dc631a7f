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
    assert main(["--file", str(file), *arguments]) == 1
    output = capsys.readouterr()
    assert words in output.err
    assert (output.out, file.read_text()) == ("", before)


def test_command_without_a_word_names_the_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().err.endswith("the following arguments are required: COMMAND\n")


def test_missing_file_option_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("PARLANCE_KEYS_FILE", raising=False)
    assert main(["list"]) == 1
    assert capsys.readouterr().err == "There is no keys file: set PARLANCE_KEYS_FILE, or give --file.\n"
    monkeypatch.setenv("PARLANCE_KEYS_FILE", str(tmp_path / "keys"))
    assert main(["list"]) == 0
    (tmp_path / "keys").write_text("broken")
    assert main(["list"]) == 1
    assert "is no JSON object" in capsys.readouterr().err
