"""A finished run that is resumed without --test."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from models import checkpoint as checkpoints
from tests.training.cli.commands import SHORT, TRANSLATE
from training.__main__ import main
from training.output_folder import STAGING_FOLDER

pytestmark = pytest.mark.usefixtures("no_curves")
RUN = [*TRANSLATE, "--valid", "valid.tsv", "--clean", "off"]
TRAINED: list[tuple[Path, dict[str, Any]]] = []
TEST = ["t.tsv (greedy)", "t.tsv (beam 5)"]


@pytest.fixture
def finished(
    here: Path, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Trained for the first test, and copied for the others."""
    lines = (here / "pairs.tsv").read_text().splitlines(keepends=True)
    (here / "valid.tsv").write_text("".join(lines[:9]))  # what it learns by heart: every epoch is a gain
    (here / "t.tsv").write_text("a b c\tC B A\n")
    (here / "other.tsv").write_text("a b\tB A\nc\tC\n")
    if not TRAINED:
        assert main([*RUN, *SHORT, "--test", "t.tsv"]) == 0
        TRAINED.append((shutil.copytree("m", tmp_path_factory.mktemp("finished") / "m"), scores(capsys)))
    folder, found = TRAINED[0]
    shutil.copytree(folder, "m", dirs_exist_ok=True)
    return found


def scores(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {name: {k: v for k, v in row.items() if k != "seconds"} for name, row in result.items()}


def test_test_scores_of_unchanged_weights_are_kept(
    here: Path, finished: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(finished) == ["validation (greedy)", *TEST]
    for _ in range(2):
        assert main([*RUN, *SHORT, "--resume"]) == 0
        assert scores(capsys) == finished
    assert checkpoints.read(here / "m").config.scores.keys() == finished.keys()
    card = (here / "m" / "README.md").read_text()
    assert all(f"| {name} |" in card for name in TEST)


def test_scores_of_another_test_set_are_added(
    here: Path, finished: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, *SHORT, "--resume", "--test", "other.tsv"]) == 0
    results = scores(capsys)
    assert list(results) == ["validation (greedy)", *TEST, "other.tsv (greedy)", "other.tsv (beam 5)"]
    assert {name: results[name] for name in TEST} == {name: finished[name] for name in TEST}
    (here / "t.tsv").write_text("a b\tB A\nc\tC\n")
    assert main([*RUN, *SHORT, "--resume", "--test", "t.tsv"]) == 0
    results = scores(capsys)
    assert [results[name]["sentences"] for name in TEST] == [2, 2]


def test_test_scores_of_changed_weights_are_dropped_with_a_note(
    here: Path, finished: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--max-epochs", "3", "--resume"]) == 0
    captured = capsys.readouterr()
    assert list(json.loads(captured.out)) == ["validation (greedy)"]
    sentence = "The scores of t.tsv (greedy), t.tsv (beam 5) were other weights': give --test again to have them."
    assert sentence in captured.err.splitlines()


@pytest.mark.parametrize("moved", [0, 2, 9])
def test_test_scores_survive_a_kill_while_publishing(
    here: Path, finished: dict[str, Any], capsys: pytest.CaptureFixture[str], moved: int
) -> None:
    """As `models.checkpoint.write` leaves its folders after so many files."""
    staging = here / "m" / STAGING_FOLDER
    staging.mkdir()
    content = checkpoints.read_config(here / "m").files.keys() | {"curves.png", "README.md", checkpoints.CONFIG}
    files = sorted((path for path in (here / "m").iterdir() if path.name in content), key=is_config)
    for path in files[min(moved, len(files) - 1) :]:
        path.rename(staging / path.name)
    assert not checkpoints.is_checkpoint(here / "m")
    assert main([*RUN, *SHORT, "--resume"]) == 0
    assert scores(capsys) == finished
    assert not staging.exists()


def test_scores_of_weights_with_another_checksum_are_dropped(
    here: Path, finished: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A kill before the weights were moved, and a resume to the earlier ones."""
    staging = here / "m" / STAGING_FOLDER
    staging.mkdir()
    config = json.loads((here / "m" / checkpoints.CONFIG).read_text())
    config["files"][checkpoints.WEIGHTS] = "0" * 64
    (staging / checkpoints.CONFIG).write_text(json.dumps(config))
    (here / "m" / checkpoints.CONFIG).unlink()
    assert main([*RUN, *SHORT, "--resume"]) == 0
    assert list(scores(capsys)) == ["validation (greedy)"]


def is_config(path: Path) -> tuple[bool, str]:
    return path.name == checkpoints.CONFIG, path.name
