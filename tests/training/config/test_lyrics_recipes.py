"""Which recipe a text gets, and that one with masks of every kind goes on to the bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from models import checkpoint as checkpoints
from tests.training.cli.commands import SHORT, SING
from tests.training.runs import Killed, assert_same_run, kill_at, sing
from tests.training.small import CPU, lyricist, text
from training.__main__ import main
from training.config import recipes
from training.config.recipes import LYRICISTS, lyricist_for
from training.lyricist_run import train_lyricist
from training.starting_point import adapted, read_starting_point
from training.training_run import TrainingRun

pytestmark = pytest.mark.usefixtures("no_curves")


def test_a_text_gets_the_recipe_of_its_size() -> None:
    assert [lyricist_for(length) for length in (0, 299_999, 300_000, 1_115_394)] == ["small"] * 2 + ["medium"] * 2


def test_chosen_recipe_is_noted_and_trained(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipes, "MEDIUM_TEXT", 400)
    monkeypatch.setitem(recipes.LYRICISTS, "medium", recipes.Recipe("", lyricist(recipe="medium")))
    assert main([*SING, *SHORT]) == 0
    assert "Recipe small, a text of 300 characters." in capsys.readouterr().err.splitlines()[0]
    Path("song.txt").write_text(text(400))
    assert main([*SING, *SHORT, "--out", "n"]) == 0
    assert "Recipe medium, a text of 400 characters." in capsys.readouterr().err.splitlines()[0]
    assert checkpoints.read(here / "n").config.training["recipe"] == "medium"


def test_named_recipe_overrides_choice_by_size(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(recipes.LYRICISTS, "medium", recipes.Recipe("", lyricist(recipe="medium")))
    assert main([*SING, *SHORT, "--recipe", "medium"]) == 0
    assert "Recipe medium, a text of 300 characters." in capsys.readouterr().err.splitlines()[0]
    assert checkpoints.read(here / "m").config.training["recipe"] == "medium"


@pytest.mark.parametrize("cell", ["gru", pytest.param("lstm", marks=pytest.mark.slow)])
def test_all_dropout_masks_resume_exactly(tmp_path: Path, cell: str) -> None:
    """The medium recipe's regularisers and average on a tiny network, killed inside an epoch."""
    medium = LYRICISTS["medium"].config
    network = {**medium.network, "embedding": 8, "hidden": 8, "cell": cell}
    changes = {"network": network, "optimizer": medium.optimizer}
    sing(tmp_path / "whole", **changes)
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 7)
        with pytest.raises(Killed):
            sing(tmp_path / "parts", **changes)
    sing(tmp_path / "parts", resume=True, **changes)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_second_editions_recipes_read_letters_alone(tmp_path: Path) -> None:
    """The normalisation is recorded with the tokenizer: prompts, scores and a tuned model read alike."""
    config = replace(LYRICISTS["d2l2-gru"].config, batch_size=64)
    config = replace(config, loop=replace(config.loop, max_epochs=2))
    song = "The Time-Traveller; for so it will be CONVENIENT!\n" * 12
    scores = train_lyricist(config, song, TrainingRun(out=tmp_path / "m", device=CPU, quiet=True), origin="made up")
    assert {"nats_per_character", "perplexity"} <= scores["held-out end of the text"].keys()
    checkpoint = checkpoints.read(tmp_path / "m")
    tokenizer = checkpoint.tokenizers["target"]
    assert set(tokenizer.decode(range(tokenizer.size))) <= set("abcdefghijklmnopqrstuvwxyz ")
    assert tokenizer.encode("THE -- time") == tokenizer.encode("the time")
    assert tokenizer.unknown("THE -- time") == []
    start = read_starting_point(str(tmp_path / "m"), "lyrics")
    assert adapted(LYRICISTS["finetune"].config, start).letters_only
