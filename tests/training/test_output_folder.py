"""Folders that --out and --resume name."""

from __future__ import annotations

from pathlib import Path

import pytest

from models import checkpoint as checkpoints
from tests.training.cli.commands import SHORT, SING, TRANSLATE, refused
from training.__main__ import main
from training.output_folder import RUN_MARK

pytestmark = pytest.mark.usefixtures("no_curves")


def test_out_with_a_model_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SING, *SHORT]) == 0
    before = {path.name: path.read_bytes() for path in (here / "m").iterdir() if path.is_file()}
    capsys.readouterr()
    assert refused(capsys, *SING) == (
        "m already holds a model; go on with its run with --resume, choose another --out, or train this model on other"
        " data with --from m and another --out."
    )
    assert {path.name: path.read_bytes() for path in (here / "m").iterdir() if path.is_file()} == before


def test_out_that_cannot_be_a_folder_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "m").write_text("a file")
    assert refused(capsys, *SING) == "m is a file; --out names a folder."
    expected = "The run cannot go on: m/inside lies inside of something that is a file, not a folder."
    assert refused(capsys, *SING, "--out", "m/inside") == expected
    (here / "broken").symlink_to(here / "nowhere")
    expected = "The run cannot go on: broken is in the way: it is a file or a broken link."
    assert refused(capsys, *SING, "--out", "broken") == expected


@pytest.mark.parametrize("name", ["README.md", "run.toml", "corpus.json", "curves.png", "notes.txt", ".staging"])
def test_files_of_a_person_in_out_are_kept(here: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (here / "mine").mkdir()
    (here / "mine" / name).write_text("mine")
    assert refused(capsys, *SING, "--out", "mine") == (
        f"mine holds files that no run has left there ({name}): choose a new or an empty folder for --out."
    )
    assert [path.name for path in (here / "mine").iterdir()] == [name]
    assert (here / "mine" / name).read_text() == "mine"


def test_corpus_that_is_named_like_a_file_of_the_run_survives_a_failing_run(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "m").mkdir()
    (here / "m" / "corpus.json").write_text('{"source": "a b", "target": "c d"}\n')
    assert "holds files that no run has left there (corpus.json)" in refused(
        capsys, *TRANSLATE[:5], "--train", "m/corpus.json", "--out", "m", "--device", "cpu"
    )
    assert (here / "m" / "corpus.json").read_text().startswith('{"source"')


def test_hidden_files_of_a_desktop_do_not_make_a_folder_full(here: Path) -> None:
    (here / "m").mkdir()
    (here / "m" / ".DS_Store").write_text("desktop")
    assert main([*SING, *SHORT]) == 0
    assert (here / "m" / ".DS_Store").read_text() == "desktop"


def test_folder_of_a_run_that_was_killed_before_its_first_snapshot_is_its_own(here: Path) -> None:
    (here / "m").mkdir()
    for name in (RUN_MARK, "run.toml", "metrics.jsonl"):
        (here / "m" / name).write_text("")
    assert main([*SING, *SHORT]) == 0
    assert checkpoints.is_checkpoint(here / "m")
    assert not (here / "m" / RUN_MARK).exists()


def test_file_that_the_mark_links_to_is_kept(here: Path) -> None:
    (here / "m").mkdir()
    (here / "notes.txt").write_text("mine")
    (here / "m" / RUN_MARK).symlink_to(here / "notes.txt")
    assert main([*SING, *SHORT]) == 0
    assert (here / "notes.txt").read_text() == "mine"


def test_resume_without_a_snapshot_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, *SING, "--resume") == "m has no run to resume; leave --resume out to start one."
    assert not (here / "m").exists()


def test_resume_with_another_seed_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SING, *SHORT]) == 0
    capsys.readouterr()
    message = refused(capsys, *SING, "--resume", "--seed", "2")
    assert message == (
        "m was trained with loop.seed = 1, not 2; resume it with the same, or train its model on other data with"
        " --from m and another --out."
    )
    assert checkpoints.is_checkpoint(here / "m")


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
