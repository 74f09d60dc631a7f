"""The suites of other projects' clients: how many tests each has, which of them fail against this server, and why.

`suites.toml` says it, `make test-clients` checks it, and `python -m tests.clients.suites` writes it into
docs/protocols.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.readme import ROOT

FOLDER = Path(__file__).parent
SUITES: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "suites.toml").read_text(encoding="utf-8"))
PAGE = ROOT / "docs" / "protocols.md"
RUN_S = 900
DOWNLOADS = FOLDER / "downloads"  # not committed: others' code
_TABLE = re.compile(r"(?<=<!-- suites -->\n)(\|.*\n)+")

Outcomes = Mapping[str, str | None]  # what each test that failed says, by its name; None: it passed


def check(name: str, outcomes: Outcomes) -> str:
    """How many tests of the suite pass, as a line. An AssertionError names those that fail and are not listed, and
    those that are listed and pass."""
    suite = SUITES[name]
    listed = {pattern for group in suite["failures"] for pattern in group["tests"]}
    failed = {test: words for test, words in outcomes.items() if words is not None}
    new = [f"{test}: {words}" for test, words in failed.items() if not any(_fits(each, test) for each in listed)]
    assert not new, f"{name}: {len(new)} tests fail that suites.toml does not list:\n" + "\n".join(new)
    for group in suite["failures"]:
        still = {pattern: [test for test in failed if _fits(pattern, test)] for pattern in group["tests"]}
        assert all(still.values()), f"{name}: suites.toml lists tests that pass, or are not there: {still}"
        count = sum(map(len, still.values()))
        assert count == group["count"], f"{name}: {count} tests fail, and suites.toml says {group['count']}: {still}"
    assert len(outcomes) == suite["tests"], f"{name}: {len(outcomes)} tests, and suites.toml says {suite['tests']}"
    return f"{name}: {len(outcomes) - len(failed)} of {len(outcomes)} tests pass"


def _fits(pattern: str, test: str) -> bool:
    """`*` stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), test, re.DOTALL) is not None


def run_pytest(words: list[str], folder: Path, report: Path, **environment: str) -> Outcomes:
    """Of a run of its own in that folder; report: where its XML goes."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *words]
    variables = {**os.environ, "PYTHONPATH": "", **environment}
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    outcomes: dict[str, str | None] = {}
    for case in ET.parse(report).iter("testcase"):
        (problem,) = [each for each in case if each.tag in ("failure", "error", "skipped")] or [None]
        place = case.attrib["classname"].rpartition(".")[2].removeprefix("suite_")
        outcomes[f"{place}.{case.attrib['name']}"] = None if problem is None else problem.get("message", problem.tag)
    return outcomes


def source_of(package: str, folder: Path) -> Path:
    """The sources of a package such as "openai==3.54.0", as PyPI has them, unpacked; they are downloaded once."""
    archive = DOWNLOADS / f"{package.replace('==', '-')}.tar.gz"
    if not archive.exists():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", package]
        subprocess.run([*command, "-d", str(DOWNLOADS)], check=True, timeout=300)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / package.replace("==", "-")


def table() -> str:
    lines = ["| suite | passed | tests that fail | reason |", "|---|---|---|---|"]
    for name, suite in SUITES.items():
        failed = sum(group["count"] for group in suite["failures"])
        first = f"| {suite['title']} | {suite['tests'] - failed} of {suite['tests']} |"
        for group in suite["failures"]:
            tests = ", ".join(f"`{test}`" for test in group["tests"])
            lines.append(f"{first} {tests} ({group['count']}) | {group['reason']} |")
            first = "| | |"
        assert suite["failures"], name
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(_TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
