"""Recipes, TOML files, --set and flags come to one configuration, or to one list of all that is wrong."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from models import checkpoint as checkpoints
from tests.training.cli.commands import SHORT, SING, TRANSLATE, refused
from tests.training.small import lyricist, translator
from training.__main__ import main, parser
from training.cli.command_options import build_request
from training.cli.train_commands import NOT_VALIDATED
from training.config import recipes
from training.config.options import checked_value
from training.config.overrides import (
    Override,
    assemble,
    options_of,
    table_overrides,
)
from training.config.run_config import LoopConfig, LyricsConfig, TranslatorConfig
from training.config.run_file import explained_config, toml_literal
from training.errors import CannotStart

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
symbols = "<BT>,"
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
        "recipe must be one of base, classic, everyday, finetune, small, tiny, toy, not 'tinny', did you mean tiny?",
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
        "tokenizer.symbols need kind = sentencepiece, not word",
        "tokenizer.symbols must be words with commas between, such as <BT>,<BLANK>, not '<BT>,'",
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
def test_text_is_read_as_the_options_type(text: str, annotation: Any, value: Any) -> None:
    result = checked_value(FieldInfo(annotation=annotation), text, is_text=True)
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("value", "annotation", "wanted"),
    [
        (True, int, "must be a whole number, not true"),
        (1, bool, "must be true or false, not 1"),
        ("1", float, "must be a number, not '1'"),
        (2.0, int, "must be a whole number, not 2.0"),
        ([1.0], tuple[float, float], "must be a list of 2, each a number, not [1.0]"),
        ("x", float | None, "must be a number or none, not 'x'"),
    ],
)
def test_wrong_type_error_names_allowed_values(value: Any, annotation: Any, wanted: str) -> None:
    with pytest.raises(ValueError) as excinfo:
        checked_value(FieldInfo(annotation=annotation), value)
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
        option = options_of(type(config))[f"network.{name}"]
        assert checked_value(option, network[name]) == defaults[f"network.{name}"]
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
    assert {key for key, option in options_of(kind).items() if not option.description} <= {
        *("network.encoder_layers", "network.decoder_layers", "network.cell", "network.layers")
    }


def test_one_option_in_two_spellings_is_given_twice(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, *SING, "--bptt", "7", "--set", "bptt=8")
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
        ("a = [", "my.toml is no TOML file of options: "),
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
    assert "cleaning.zzz is no option (--clean)" in message
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


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a = " + "[" * 100_000, "my.toml is nested too deeply: options have two levels"),
        ("a = " + "{b = " * 3000 + "1" + "}" * 3000, "my.toml is nested too deeply"),
        (f"[{'.'.join('a' * 3000)}]\nb = 1", "my.toml is nested too deeply"),
        (f"[{'.'.join('a' * 60)}]\nb = 1", "my.toml is nested too deeply"),
        (f"[loop]\nseed = {'1' * 5000}", "my.toml is no TOML file of options: Exceeds the limit (4300 digits)"),
        (f"[loop]\nseed = 0x{'f' * 5000}", "loop.seed must be a whole number, not one of 20000 bits (my.toml)"),
        (f"[loop]\nseed = 1{'0' * 400}", "loop.seed must be a whole number, not one of 1329 bits (my.toml)"),
        (
            f"[optimizer]\nlearning_rate = 1{'0' * 400}",
            "optimizer.learning_rate must be a number, not one of 1329 bits",
        ),
        ("[optimizer]\nweight_decay = inf", "optimizer.weight_decay must be a number, not inf (my.toml)"),
        ("[network]\ndropout = nan", "network.dropout must be a number, not nan (my.toml)"),
        ("[optimizer]\nbetas = [0.9, 1e999]", "optimizer.betas must be a number, not inf (my.toml)"),
        (f"[loop]\nseed = '{'x' * 3_000_000}'", "loop.seed must be a whole number, not 'xxx"),
        (f"{'x' * 1_000_000} = 1", "xxx"),
        ("".join(f"x{i} = 1\n" for i in range(1050)), "; and 1,000 more."),
        pytest.param("".join(f"x{i} = 1\n" for i in range(5000)), "; and 4,950 more.", marks=pytest.mark.slow),
        ("[network]\nhidden = 1000000000000", "network.hidden must be at most 10,000,000, not 1,000,000,000,000"),
        (
            "[network]\nlayers = 9223372036854775807",
            "network.layers must be at most 1,000, not 9,223,372,036,854,775,807",
        ),
        ("[machine]\nthreads = 9223372036854775807", "--threads must be at most "),
        ("[command]\na = 1", "my.toml: command must be a text."),
        ("#" * 5_000_000, "my.toml is no TOML file of options: it has 5,000,000 bytes, and the most is 4,000,000."),
    ],
)
def test_deep_and_huge_run_files_are_one_short_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], content: str, problem: str
) -> None:
    (here / "my.toml").write_text(content)
    sentence = refused(capsys, *SING, "--config", "my.toml")
    assert problem in sentence
    assert len(sentence) < 4000


@pytest.mark.parametrize("value", ["1e999", "inf", "nan", "9" * 5000])
def test_huge_numbers_of_the_command_line_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    assert "optimizer.learning_rate must be a number, not " in refused(capsys, *SING, "--learning-rate", value)
    assert "loop.seed must be a whole number, not " in refused(capsys, *SING, "--seed", value)


def test_integers_of_the_command_line_fit_the_run_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, *TRANSLATE, "--set", f"max_tokens={2**63}")
    assert message == "This cannot start: max_tokens must be a whole number, not one of 64 bits (--set)."


@pytest.mark.parametrize("value", ["x", "1", "0.9", "0.9,x,y", "nan", ""])
def test_a_list_of_another_length_says_how_long_it_must_be(
    here: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    message = refused(capsys, *TRANSLATE, "--set", f"optimizer.betas={value}")
    assert message == f"This cannot start: optimizer.betas must be a list of 2, each a number, not {value!r} (--set)."


def test_numbers_of_a_list_are_shown_without_the_spaces_between_them(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(capsys, *TRANSLATE, "--set", "optimizer.betas=0.9, 2")
    assert message == "This cannot start: optimizer.betas must lie in [0, 1), not 2."


def test_run_file_that_never_ends_is_not_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "it is no regular file" in refused(capsys, *SING, "--config", "/dev/zero")
