"""run.toml: the run that a checkpoint records, again and bit for bit."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import pytest

from models import checkpoint as checkpoints
from tests.training.cli.commands import SING, TRANSLATE, refused
from tests.training.small import lyricist, translator
from training.__main__ import main
from training.config.run_file import explained_config

pytestmark = pytest.mark.usefixtures("no_curves")


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (TRANSLATE, ["--max-epochs", "2", "--seed", "7", "--set", "optimizer.betas=0.8,0.9", "--test", "t.tsv"]),
        (SING, ["--max-epochs", "2", "--seed", "7", "--cell", "lstm", "--threads", "1"]),
    ],
)
def test_a_recorded_run_can_be_repeated_bit_for_bit(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], options: list[str]
) -> None:
    (here / "t.tsv").write_text("a b c\tC B A\n")
    assert main([*arguments, *options]) == 0
    first = capsys.readouterr().out
    assert main([arguments[0], "--config", "m/run.toml", "--out", "again"]) == 0
    second = capsys.readouterr().out
    assert (here / "m/model.safetensors").read_bytes() == (here / "again/model.safetensors").read_bytes()
    assert checkpoints.read(here / "m").config.training == checkpoints.read(here / "again").config.training
    assert first.count("greedy") == second.count("greedy")
    assert (here / "m/run.toml").read_text() == (here / "again/run.toml").read_text()


def test_a_run_file_names_the_data_and_the_machine(here: Path) -> None:
    assert main([*SING, "--max-epochs", "1", "--threads", "1"]) == 0
    content = tomllib.loads((here / "m/run.toml").read_text())
    digest = hashlib.sha256((here / "song.txt").read_bytes()).hexdigest()
    assert content["data"] == {"corpus": "song.txt", "sha256": {"song.txt": digest}}
    assert content["machine"] == {"device": "cpu", "threads": 1}
    assert (content["command"], content["complete"], content["loop"]["seed"]) == ("lyrics", True, 1)


def test_data_that_has_changed_is_refused_unless_it_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SING, "--max-epochs", "1"]) == 0
    (here / "song.txt").write_text((here / "song.txt").read_text() + "more")
    capsys.readouterr()
    again = ["lyrics", "--config", "m/run.toml", "--out", "again", "--device", "cpu"]
    expected = "song.txt is not what run.toml recorded; to train on it as it is now, name it with --corpus."
    assert refused(capsys, *again) == f"This cannot start: {expected}"
    assert main([*again, "--corpus", "song.txt"]) == 0


def test_data_paths_are_relative_to_the_run_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "elsewhere").mkdir()
    (here / "my.toml").write_text('[data]\ncorpus = "song.txt"\n[loop]\nmax_epochs = 1\n')
    monkeypatch.chdir(here / "elsewhere")
    assert main(["lyrics", "--config", "../my.toml", "--out", "m", "--device", "cpu"]) == 0
    assert checkpoints.read(Path("m")).config.training["loop"]["max_epochs"] == 1


def test_a_single_corpus_may_be_a_text_of_the_run_file(here: Path) -> None:
    Path("my.toml").write_text('source_language = "aa"\ntarget_language = "bb"\n[data]\ntrain = "pairs.tsv"\n')
    assert main(["translator", "--config", "my.toml", "--out", "m", "--device", "cpu", "--max-epochs", "1"]) == 0
    assert checkpoints.read(here / "m").config.source_language == "aa"


def test_recipe_that_contradicts_a_complete_run_file_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SING, "--max-epochs", "1"]) == 0
    capsys.readouterr()
    message = refused(capsys, "lyrics", "--config", "m/run.toml", "--recipe", "d2l-adam", "--out", "again")
    assert "--recipe d2l-adam contradicts run.toml, which states all options of recipe small" in message


def test_a_key_that_a_later_version_added_keeps_its_neutral_default(here: Path) -> None:
    assert main([*TRANSLATE, "--max-epochs", "1"]) == 0
    path = here / "m/run.toml"
    kept = [line for line in path.read_text().splitlines() if not line.startswith("ema_decay")]
    path.write_text("\n".join(kept))
    assert main(["translator", "--config", "m/run.toml", "--out", "again"]) == 0
    training = checkpoints.read(here / "again").config.training
    assert training["loop"]["ema_decay"] == 0.0  # the recipe has 0.9


@pytest.mark.parametrize("arguments", [TRANSLATE, SING])
def test_every_option_of_recipes_show_has_its_value(here: Path, arguments: list[str]) -> None:
    """Network options at their defaults included, which are not part of the configuration."""
    assert main([*arguments, "--max-epochs", "1"]) == 0
    content = tomllib.loads((here / "m/run.toml").read_text())
    recorded = checkpoints.read(here / "m").config.training
    config = {"translator": translator, "lyrics": lyricist}[arguments[0]]()
    for group, value in tomllib.loads(explained_config(config)).items():
        for name in value if isinstance(value, dict) else ():
            assert name in content[group] or name in content["derived"][group], (group, name)
        assert isinstance(value, dict) or group in content, group
    derived = content["derived"]
    assert derived["network"].keys().isdisjoint(recorded["network"])
    assert (derived["number_format"], derived["processes"]) == ("fp32", 1)
    assert derived["parameters"] == checkpoints.read(here / "m").config.parameters
    sizes = {role: tokenizer.size for role, tokenizer in checkpoints.read(here / "m").tokenizers.items()}
    assert derived["vocabulary"] == sizes


def test_derived_values_of_a_run_file_are_not_read(here: Path) -> None:
    assert main([*SING, "--max-epochs", "1"]) == 0
    path = here / "m/run.toml"
    path.write_text(path.read_text().split("\n[derived")[0])
    assert main(["lyrics", "--config", "m/run.toml", "--out", "again", "--device", "cpu"]) == 0
    assert (here / "m/model.safetensors").read_bytes() == (here / "again/model.safetensors").read_bytes()
