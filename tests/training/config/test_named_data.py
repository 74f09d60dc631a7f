"""Which recorded file is which, when run.toml says what its data were."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.training.small import translator
from training.config import run_file


def test_digests_are_matched_by_full_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["pairs.tsv", "more-pairs.tsv"]
    for name in names:
        Path(name).write_text(f"{name}\tb\n")
    Path("run.toml").write_text(run_file.run_file_text(translator(), {"train": names}, torch.device("cpu")))
    assert list(run_file.read_run_file(Path("run.toml"), "translator").problems({})) == []
    Path("more-pairs.tsv").write_text("c\td\n")
    (problem,) = run_file.read_run_file(Path("run.toml"), "translator").problems({})
    assert problem.startswith("more-pairs.tsv is not what run.toml recorded")
    monkeypatch.chdir("/")  # and located beside the file from another directory
    (problem,) = run_file.read_run_file(tmp_path / "run.toml", "translator").problems({})
    assert problem.startswith(f"{tmp_path}/more-pairs.tsv is not what run.toml recorded")


def test_run_file_repeats_the_number_of_processes() -> None:
    one, two = (
        run_file.run_file_text(translator(), {"train": "p.tsv"}, torch.device("cpu"), count) for count in (1, 2)
    )
    command = "python -m training translator --config run.toml"
    assert one.startswith(f"# The same run again: {command} --out FOLDER\n")
    assert two.startswith(f"# The same run again: {command} --processes 2 --out FOLDER\n")
