"""Recipes, TOML files, --set and flags come to one configuration, or to one list of all that is wrong."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from models import checkpoint as checkpoints
from tests.training.cli.commands import SHORT, SING, TRANSLATE, refused
from tests.training.small import lyricist, translator
from training.__main__ import main, parser
from training.cli.command_options import build_request
from training.cli.commands import NOT_VALIDATED
from training.config import recipes
from training.config.overrides import (
    Override,
    assemble,
    check_value,
    options_of,
    parse_value,
    table_overrides,
    with_current_keys,
)
from training.config.run_config import LoopConfig, LyricsConfig, TranslatorConfig, recorded
from training.config.run_file import explained_config, toml_literal
from training.errors import CannotStart
from training.loop import snapshot

pytestmark = pytest.mark.usefixtures("no_curves")
TRANSLATORS_ONLY = ["translator", "--config", "my.toml", "--out", "m", "--device", "cpu"]


def of(*arguments: str) -> Any:
    """The configuration that a translator's command line comes to."""
    given = parser().parse_args([*TRANSLATE, *arguments])
    given.unknown = []
    return build_request(given, recipes.TRANSLATORS, "tiny", {"train": "pairs.tsv"}, {}).config


def test_problems_of_file_set_and_options_are_listed_together(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "my.toml").write_text(
        """
source_language = "auto"
label_smoothing = 1.5
tokens_per_batch = "many"
optimiser.rate = 0.1
[tokenizer]
kind = "sentencepeace"
casefold_source = true
joint = true
[network]
d_model = 0
tied = "both"
[optimizer]
ratte = 1
betas = [0.9, 2.0]
warmup_updates = 2.5
[data]
tset = "t.tsv"
[machine]
threads = 0
"""
    )
    message = refused(
        capsys,
        *TRANSLATORS_ONLY,
        *("--set", "loop.patience=-1", "--set", "nonsense", "--set", "loop=3", "--set", "zzz=1"),
        *(
            "--ressume",
            "--nonsense",
            "3",
            "--seed",
            "one",
            "--max-epochs",
            "0",
            "--recipe",
            "tinny",
            "--set",
            "loop.max_epochs=7",
        ),
    )
    expected = [
        "--ressume is no option, did you mean --resume?",
        "--nonsense is no option",
        "--set nonsense lacks its =: write KEY=VALUE",
        "data.tset is no option, which are train, mix, valid, test, columns, corpus, from, tokenizer (my.toml)",
        "machine.threads must be a whole number of at least 1, not 0 (my.toml)",
        "--target is missing",
        "--train is missing",
        "recipe must be one of base, classic, finetune, small, tiny, not 'tinny', did you mean tiny?",
        "loop.max_epochs is given twice: 0 (--max-epochs) and 7 (--set)",
        "tokens_per_batch must be a whole number, not 'many' (my.toml)",
        "optimiser.rate is no option, did you mean optimizer.learning_rate? (my.toml)",
        "tokenizer.kind must be one of sentencepiece, word, character, not 'sentencepeace' (my.toml)",
        "network.tied must be one of none, output, all, not 'both' (my.toml)",
        "optimizer.ratte is no option, did you mean optimizer.learning_rate? (my.toml)",
        "optimizer.warmup_updates must be a whole number, not 2.5 (my.toml)",
        "loop.seed must be a whole number, not 'one' (--seed)",
        "loop is a group of options, such as loop.max_epochs (--set)",
        "zzz is no option (--set)",
        "network.d_model must be a whole number of at least 1, not 0",
        "tokenizer.casefold_source needs joint = false: one vocabulary cannot fold the case of one side alone",
        "tokenizer.casefold_source needs kind = sentencepiece, not word",
        "optimizer.betas must lie in [0, 1), not 0.9, 2",
        "loop.patience must be at least 0, not -1",
        "source_language must be a language code such as de or pt-BR, not 'auto'",
        "label_smoothing must lie in [0, 1), not 1.5",
    ]
    assert message.startswith("This cannot start: ")
    assert sorted(message.removeprefix("This cannot start: ").removesuffix(".").split("; ")) == sorted(
        "; ".join(expected).split("; ")
    )
    assert not (here / "m").exists()


def test_later_override_wins(here: Path) -> None:
    Path("my.toml").write_text(
        "label_smoothing = 0.3\n[loop]\nseed = 5\npatience = 2\n[optimizer]\nlearning_rate = 1\n"
    )
    config = of(
        "--config", "my.toml", "--seed", "6", "--set", "optimizer.learning_rate=2.5e-3", "--set", "loop.max_minutes=3"
    )
    expected = translator()
    assert config == replace(
        expected,
        source_language="aa",
        target_language="bb",
        label_smoothing=0.3,
        optimizer=replace(expected.optimizer, learning_rate=2.5e-3),
        loop=replace(expected.loop, seed=6, patience=2, max_minutes=3.0, max_epochs=10_000),
    )
    assert isinstance(asdict(of("--set", "optimizer.learning_rate=1"))["optimizer"]["learning_rate"], float)


def test_a_file_names_its_base(here: Path) -> None:
    Path("my.toml").write_text('recipe = "base"\n[network]\nheads = 4\n')
    config = of("--config", "my.toml")
    expected = recipes.TRANSLATORS["base"].config
    assert config.network == {**expected.network, "heads": 4}
    assert (config.recipe, config.optimizer, config.tokenizer) == ("base", expected.optimizer, expected.tokenizer)
    assert of("--config", "my.toml", "--recipe", "small").optimizer == recipes.TRANSLATORS["small"].config.optimizer


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("3", int, 3),
        ("1e-3", float, 1e-3),
        ("True", bool, True),
        ("0.9, 0.98", tuple[float, float], (0.9, 0.98)),
        ("[0.9,1]", tuple[float, float], (0.9, 1.0)),
        ("none", float | None, None),
        ("2", float | None, 2.0),
        ("none", str, "none"),
    ],
)
def test_parse_value_by_type(text: str, annotation: Any, value: Any) -> None:
    result = parse_value(text, annotation)
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("value", "annotation", "wanted"),
    [
        (True, int, "must be a whole number, not true"),
        (1, bool, "must be true or false, not 1"),
        ("1", float, "must be a number, not '1'"),
        (2.0, int, "must be a whole number, not 2.0"),
        ([1.0], tuple[float, float], "must be a list of 2, each a number, not [1.0]"),
        ("x", float | None, "must be a number, not 'x'"),
    ],
)
def test_wrong_type_error_names_allowed_values(value: Any, annotation: Any, wanted: str) -> None:
    with pytest.raises(ValueError) as excinfo:
        check_value(value, annotation)
    assert str(excinfo.value) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [*recipes.TRANSLATORS.values(), *recipes.LYRICISTS.values()])
def test_printed_recipe_is_parsed_back(recipe: Any) -> None:
    config = recipe.config
    content = tomllib.loads(explained_config(config))
    network = content.pop("network")
    assert network.items() >= dict(config.network).items()
    defaults = {name: key.default for name, key in options_of(type(config)).items()}
    for name in network.keys() - config.network.keys():
        assert (
            check_value(network[name], options_of(type(config))[f"network.{name}"].annotation)
            == defaults[f"network.{name}"]
        )
    kind, (again, problem) = type(config), (type(config)(recipe="x"), [])
    stated = list(table_overrides({**content, "network": dict(config.network)}, "shown"))
    assert assemble(again, stated, problem) == config
    assert {key for key in options_of(kind) if "." not in key} <= content.keys()


def test_a_recipe_can_be_shown_and_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    listed = capsys.readouterr().out.splitlines()
    names = [f"translator/{n}" for n in recipes.TRANSLATORS] + [f"lyrics/{n}" for n in recipes.LYRICISTS]
    assert [line.split()[0] for line in listed[: len(names)]] == names
    assert all(len(line.split()) > 4 for line in listed[: len(names)])
    assert main(["recipes", "--show", "tiny"]) == 0
    shown = capsys.readouterr().out
    assert (
        tomllib.loads(shown)["optimizer"]["learning_rate"] == recipes.TRANSLATORS["tiny"].config.optimizer.learning_rate
    )
    assert 'precision = "auto"  # auto | fp32 | bf16 | fp16; ' in shown
    assert main(["recipes", "--show", "small"]) == 2
    assert "say translator/small or lyrics/small" in capsys.readouterr().err
    assert main(["recipes", "--show", "huge"]) == 2
    assert "There is no recipe 'huge'; there are translator/tiny, " in capsys.readouterr().err


@pytest.mark.parametrize("kind", [TranslatorConfig, LyricsConfig])
def test_every_option_has_a_help_text(kind: Any) -> None:
    assert {key for key, option in options_of(kind).items() if not option.help} <= {
        *("network.encoder_layers", "network.decoder_layers", "network.cell", "network.layers")
    }


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (TranslatorConfig, recipes.TRANSLATORS["tiny"].config),
        (LyricsConfig, recipes.LYRICISTS["medium"].config),
    ],
)
def test_former_keys_are_read_and_recorded(kind: Any, config: Any) -> None:
    options = options_of(kind)
    former = {key: option.formerly for key, option in options.items() if option.formerly}
    assert len(former) >= 5
    assert not set(former.values()) & options.keys()
    values, old = asdict(config), recorded(config)
    for key, formerly in former.items():
        value, recorded_value = values, old
        for name, old_name in zip(key.split("."), formerly.split("."), strict=True):
            value, recorded_value = value[name], recorded_value[old_name]
        assert value == recorded_value
        overrides, renamed = with_current_keys(
            kind, [Override(formerly, value, "my.toml"), Override("recipe", "x", "")]
        )
        assert overrides == [Override(key, value, "my.toml"), Override("recipe", "x", "")]
        assert renamed == [f"{formerly} is now called {key}"]


def test_snapshots_of_older_runs_are_still_of_the_same_run() -> None:
    recorded_before_the_renames = "1bf9833b5ab8442029de33f399afa6de43aabc4cd74357d81488b3f32b2adc35"
    assert (
        snapshot.fingerprint(recorded(recipes.LYRICISTS["d2l-adam"].config), [["a", "b"]])
        == recorded_before_the_renames
    )


def test_former_names_of_options_are_noted_in_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "my.toml").write_text("[loop]\naverage_decay = 0.5\n")
    given = ["--config", "my.toml", "--vocabulary", "77", "--set", "optimizer.rate=0.5", *SHORT]
    assert main([*TRANSLATE, *given]) == 0
    assert capsys.readouterr().err.splitlines()[0] == (
        "--vocabulary is now called --vocab-size; loop.average_decay is now called loop.ema_decay;"
        " optimizer.rate is now called optimizer.learning_rate."
    )
    training = checkpoints.read(here / "m").config.training
    assert (training["tokenizer"]["vocab_size"], training["loop"]["ema_decay"]) == (77, 0.5)
    assert training["optimizer"]["learning_rate"] == 0.5


def test_one_option_under_both_names_is_given_twice(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, *TRANSLATE, "--vocabulary", "77", "--vocab-size", "78")
    assert message == "This cannot start: tokenizer.vocab_size is given twice: 77 (--vocabulary) and 78 (--vocab-size)."
    message = refused(capsys, *SING, "--bptt", "7", "--set", "steps=8")
    assert message == "This cannot start: bptt is given twice: 7 (--bptt) and 8 (--set)."


def test_frequent_options_are_options_of_the_command_line(here: Path) -> None:
    given = ["--learning-rate", "0.25", "--batch-size", "3", "--bptt", "7"]
    assert main([*SING, *SHORT, *given]) == 0
    training = checkpoints.read(here / "m").config.training
    assert (training["optimizer"]["learning_rate"], training["batch_size"], training["bptt"]) == (0.25, 3, 7)
    assert of("--tokens-per-batch", "99", "--vocab-size", "88").tokens_per_batch == 99


@pytest.mark.parametrize("value", ["plain", 'quo"te', "back\\slash", "tab\tline\n", "é 模型 🎵", "\x7f", "", None])
def test_texts_survive_toml(value: str | None) -> None:
    assert tomllib.loads(f"x = {toml_literal(value)}")["x"] == ("none" if value is None else value)


@pytest.mark.parametrize("value", [0, -3, 1e-9, 3e-3, 1e300, 0.1, True, [0.9, 0.98], float("inf")])
def test_numbers_survive_toml(value: Any) -> None:
    assert tomllib.loads(f"x = {toml_literal(value)}")["x"] == value


def test_patience_without_held_out_text_is_refused() -> None:
    stated = [Override("valid_fraction", 0.0, "my.toml"), Override("loop.patience", 3, "my.toml")]
    with pytest.raises(CannotStart, match=r"loop.patience = 3 needs something held out: valid_fraction is 0"):
        assemble(lyricist(), stated)


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("a = [", "my.toml is no TOML file: "),
        ('command = "lyrics"', "my.toml is for `python -m training lyrics`, not for translator."),
        ("data = 3", "my.toml: data must be a table."),
    ],
)
def test_invalid_run_files_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str], content: str, wanted: str
) -> None:
    (here / "my.toml").write_text(content)
    assert refused(capsys, *TRANSLATORS_ONLY).startswith(wanted)
    assert refused(capsys, *SING, "--config", "none.toml") == "The run cannot start: none.toml does not exist."


def test_set_changes_what_is_trained(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SING, *SHORT, "--set", "network.hidden=9", "--set", "valid_fraction=0.2"]) == 0
    config = checkpoints.read(here / "m").config
    assert (config.architecture["hidden"], config.training["valid_fraction"]) == (9, 0.2)
    assert json.loads(capsys.readouterr().out)["held-out end of the text"]["characters"] == 59


@pytest.mark.slow
def test_cleaning_is_configuration_like_any_other(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "my.toml").write_text("[cleaning]\nratio = 6\nidentical_from = 9\n")
    given = ["--config", "my.toml", "--clean", "duplicates=off", "--clean", "identical-from=off", *SHORT]
    assert main([*TRANSLATE, *given]) == 0
    cleaning = checkpoints.read(here / "m").config.training["cleaning"]
    assert (cleaning["ratio"], cleaning["duplicates"], cleaning["identical_from"]) == (6.0, False, None)
    capsys.readouterr()
    message = refused(capsys, *TRANSLATE, "--clean", "zzz=1", "--seed", "x")
    assert "--clean has no rule 'zzz'" in message
    assert "loop.seed must be a whole number, not 'x' (--seed)" in message


def test_choose_by_bleu_needs_held_out_pairs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, *TRANSLATE, "--set", "loop.choose_by=bleu")
    assert message == "This cannot start: loop.choose_by = bleu needs held-out pairs: give --valid."
    assert not (here / "m").exists()


def test_a_recipe_that_chooses_by_bleu_trains_on_few_pairs_too(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    choosing = translator(loop=LoopConfig(max_epochs=1, choose_by="bleu"))
    monkeypatch.setitem(recipes.TRANSLATORS, "tiny", recipes.Recipe("", choosing))
    assert main(TRANSLATE) == 0
    captured = capsys.readouterr()
    assert NOT_VALIDATED in captured.err.splitlines()
    assert captured.out == "{}\n", "as docs/training.md says"
