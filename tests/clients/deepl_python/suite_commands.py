"""`python -m deepl`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import deepl
import pytest

from tests.clients.deepl_python.conftest import Ours, Terms
from tests.clients.deepl_python.suite_glossaries import CSV
from tests.clients.deepl_server import KEY, TEXTS
from tests.serving import Server

Run = Callable[..., str]
TEXT = ("text", "--from", "EN", "--to", "DE")


@pytest.fixture
def run(deepl_server: Server) -> Run:
    """run("usage") is what the command prints, errors included."""

    def run(*words: str, code: int = 0, typed: str = "", key: str | None = KEY, path: Path | None = None) -> str:
        environment = {**os.environ, "DEEPL_SERVER_URL": deepl_server.base, "PYTHONPATH": str(path or "")}
        environment |= {"PYTHONIOENCODING": "utf-8"} | ({"DEEPL_AUTH_KEY": key} if key else {})
        command = [sys.executable, "-m", "deepl", *words]
        done = subprocess.run(
            command, env=environment, input=typed, capture_output=True, encoding="utf-8", timeout=60, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


def test_help(run: Run) -> None:
    assert "usage" in run("--help")


def test_version(run: Run) -> None:
    assert re.match(r"deepl-python v\d+\.\d+\.\d+", run("--version"))


def test_verbose(run: Run) -> None:
    assert "Request to DeepL API" in run("--verbose", "usage")
    assert "Request details" in run("-vv", "usage")


def test_no_key(run: Run) -> None:
    assert "DEEPL_AUTH_KEY" in run("usage", code=1, key=None)


def test_key_of_a_keyring(run: Run, tmp_path: Path) -> None:
    (tmp_path / "keyring.py").write_text(f"def get_password(folder, name): return {KEY!r}\n")
    assert "Usage this billing period" in run("usage", key=None, path=tmp_path)


def test_no_key_and_no_keyring(run: Run, tmp_path: Path) -> None:
    (tmp_path / "keyring.py").write_text("raise ImportError\n")
    assert "DEEPL_AUTH_KEY" in run("usage", code=1, key=None, path=tmp_path)


def test_key_without_a_keyring(run: Run, tmp_path: Path) -> None:
    (tmp_path / "keyring.py").write_text("raise ImportError\n")
    assert "Usage this billing period" in run("usage", path=tmp_path)


def test_no_command(run: Run) -> None:
    assert "required: command" in run(code=2)


def test_usage(run: Run) -> None:
    assert "Usage this billing period" in run("usage")


def test_languages(run: Run) -> None:
    told = run("languages")
    assert all(part in told for part in ("Source languages", "Target languages", "DE: German", "EN: English"))
    assert "de, en" in run("languages", "--glossary")


def test_text(run: Run, ours: Ours) -> None:
    options = ("--show-detected-source", "--show-model-type-used", "--model-type", "quality_optimized")
    told = run(*TEXT, TEXTS["en"], *options)
    assert ours() in told
    assert "Detected source" in told
    assert "Model type used: quality_optimized" in told
    for words, sent in (
        ("--formality prefer_less", "'formality': 'prefer_less'"),
        ("--split-sentences 0", "'split_sentences': '0'"),
        ("--preserve-formatting", "'preserve_formatting': True"),
        ("--tag-handling xml", "'tag_handling': 'xml'"),
        ("--ignore-tags a,b --ignore-tags c", "'ignore_tags': ['a', 'b', 'c']"),
        ("--outline-detection-off", "'outline_detection': False"),
        ("--splitting-tags a,b", "'splitting_tags': ['a', 'b']"),
        ("--non-splitting-tags a,b", "'non_splitting_tags': ['a', 'b']"),
        ("--formality more", "'formality': 'more'"),
    ):
        assert sent in run("-vv", *TEXT, TEXTS["en"], *words.split())


def test_text_of_the_input(run: Run, ours: Ours) -> None:
    told = run(*TEXT, "--show-detected-source", "-", typed=TEXTS["en"])
    assert ours() in told
    assert "Detected source" in told


def test_splitting_into_sentences(run: Run) -> None:
    assert re.search(
        "Request details.*split_sentences.*nonewlines",
        run("-vv", *TEXT, "--split-sentences", "nonewlines", TEXTS["en"]),
    )


def test_tags(run: Run) -> None:
    options = "--tag-handling xml --splitting-tags s --ignore-tags a,b"
    told = run("-vv", *TEXT, TEXTS["en"], *options.split())
    assert "'ignore_tags': ['a', 'b']" in told
    assert "'splitting_tags': ['s']" in told


def test_tags_of_html(run: Run) -> None:
    assert "</p></html>" in run(*TEXT, "--tag-handling", "html", "<html><p>the house</p></html>")


def test_document(run: Run, document: Path, tmp_path: Path, ours: Ours) -> None:
    run("-vv", "document", "--from", "EN", "--to", "DE", str(document), str(tmp_path / "output"))
    assert (tmp_path / "output" / document.name).read_text(encoding="utf-8") == ours()


def test_output_that_is_a_file(run: Run, document: Path, tmp_path: Path) -> None:
    (tmp_path / "output").touch()
    assert "already exists" in run("document", "--to", "DE", str(document), str(tmp_path / "output"), code=1)


def test_file_of_an_unknown_kind(run: Run, document: Path, tmp_path: Path) -> None:
    unknown = document.rename(document.with_suffix(".invalid"))
    told = run("document", "--to", "DE", str(unknown), str(tmp_path / "output"), code=1)
    assert "Invalid file" in told or "file extension" in told


def test_glossary_without_a_command(run: Run) -> None:
    assert "required: subcommand" in run("glossary", code=2)


def test_glossaries_created(run: Run, tmp_path: Path, name: str) -> None:
    file = tmp_path / "terms.tsv"
    file.write_text("Hallo\tHello\nMaler\tArtist")
    csv = tmp_path / "terms.csv"
    csv.write_text(CSV)
    create = ("glossary", "create", "--from", "DE", "--to", "EN", "--name")
    run(*create, f"{name} words", "Hallo=Hello", "Maler=Artist")
    run(*create, f"{name} typed", "-", typed=file.read_text())
    run(*create, f"{name} file", "--file", str(file))
    run(*create, f"{name} csv", "--file", str(csv), "--csv")
    told = run("glossary", "list")
    assert all(f"{name} {kind}" in told for kind in ("words", "typed", "file", "csv"))
    assert "--file argument" in run(*create, name, "--file", str(file), "Hallo=Hello", code=1)


def test_glossary_shown(run: Run, terms: Terms, name: str) -> None:
    made = terms(name=name)
    told = run("glossary", "get", made.glossary_id)
    assert made.glossary_id in told
    assert name in told


def test_glossaries_listed(run: Run, terms: Terms, name: str) -> None:
    made = [terms(name=f"{name} {number}") for number in range(3)]
    told = run("glossary", "list")
    assert all(glossary.name in told for glossary in made)


def test_entries_shown(run: Run, terms: Terms) -> None:
    made = terms({"Hallo": "Hello", "Maler": "Artist"})
    told = run("glossary", "entries", made.glossary_id)
    assert "Hallo\tHello" in told
    assert "Maler\tArtist" in told


def test_glossary_deleted(run: Run, terms: Terms, client: deepl.DeepLClient) -> None:
    made = terms()
    assert made.glossary_id in run("glossary", "list")
    run("glossary", "delete", made.glossary_id)
    assert made.glossary_id not in run("glossary", "list")
