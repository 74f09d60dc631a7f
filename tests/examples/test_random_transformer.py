"""The tutorial's model is a checkpoint like any other, and never takes another's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import random_transformer
from models import checkpoint as checkpoints
from models.networks.loading import load_network


def test_what_is_written_is_the_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random_transformer.main([str(tmp_path / "tutorial")])
    assert "walk through" in capsys.readouterr().out
    result = checkpoints.read(tmp_path / "tutorial")
    assert result.source_ids("hello world") == (0, 1)
    made = random_transformer.network().float().state_dict()
    loaded = load_network(result).state_dict()
    assert all(made[name].equal(loaded[name]) for name in made)
    assert [path.name for path in tmp_path.iterdir()] == ["tutorial"]


def test_a_folder_that_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    with pytest.raises(SystemExit) as ended:
        random_transformer.main([str(tmp_path / "mine")])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{tmp_path / 'mine'} cannot be written: it is there already.\n"
    assert (tmp_path / "mine" / "file").read_text() == "kept"


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_is_none_is_there_already(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        random_transformer.main([name])
    assert (ended.value.code, capsys.readouterr().err) == (2, f"{name} cannot be written: it is there already.\n")
