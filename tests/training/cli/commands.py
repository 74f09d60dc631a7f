"""Commands of the tests, and how one is refused."""

from __future__ import annotations

import pytest

from training.__main__ import main

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
