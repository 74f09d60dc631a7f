"""Options as other trainers spell them: the refusal names our own spelling, which the command then takes."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from tests.training.cli.commands import SING, TRANSLATE, refused
from training.__main__ import parser
from training.cli.commands import OWN_NAMES
from training.config.overrides import options_of
from training.config.run_config import LyricsConfig, TranslatorConfig

KEYS = {"translator": options_of(TranslatorConfig), "lyrics": options_of(LyricsConfig)}


def known_options(command: str) -> list[str]:
    [subparsers] = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    known: list[str] = subparsers.choices[command].get_default("known")
    return known


@pytest.mark.parametrize("command", ["translator", "lyrics", "translate"])
def test_every_suggestion_is_an_option(command: str) -> None:
    known = known_options(command)
    for foreign, own in OWN_NAMES[command].items():
        assert foreign not in known
        options = re.findall(r"--[a-z0-9-]+", own)
        assert options
        assert set(options) <= set(known), (foreign, own)
        for key in re.findall(r"--set ([a-z0-9_.]+)=", own):
            assert key in KEYS[command], (foreign, own)


@pytest.mark.parametrize(
    ("arguments", "given", "meant"),
    [
        (TRANSLATE, "--lr", "--learning-rate RATE"),
        (TRANSLATE, "--learning_rate", "--learning-rate"),
        (TRANSLATE, "--epochs", "--max-epochs EPOCHS"),
        (TRANSLATE, "--batch-size", "--tokens-per-batch TOKENS: a batch is counted in tokens of its longer side"),
        (TRANSLATE, "--max-steps", "--max-epochs or --max-minutes: a run has no limit in updates"),
        (TRANSLATE, "--src", "--source CODE"),
        (TRANSLATE, "--layers", "--set network.encoder_layers=N --set network.decoder_layers=N"),
        (TRANSLATE, "--fp16", "--set loop.precision=fp16"),
        (TRANSLATE, "--gpus", "--processes N, one for each GPU"),
        (TRANSLATE, "--save-dir=x", "--out FOLDER"),
        (TRANSLATE, "--train_from", "--from FOLDER"),
        (TRANSLATE, "--lora", "--freeze MODULES: there are no adapters"),
        (TRANSLATE, "--lang_pair", "--source CODE --target CODE"),
        (SING, "--hidden-size", "--set network.hidden=WIDTH"),
        (SING, "--train", "--corpus FILE"),
    ],
)
def test_refusal_names_our_spelling(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], given: str, meant: str
) -> None:
    message = refused(capsys, *arguments, given, "7")
    assert f"{given.partition('=')[0]} is no option, did you mean {meant}" in message


def test_every_command_refuses_unknown_options_in_one_sentence(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "evaluate", "m", "--nonsense") == "This cannot start: --nonsense is no option."
    assert refused(capsys, "evaluate", "m", "--testset", "x", "--bleu") == (
        "This cannot start: --testset is no option, did you mean --test?; --bleu is no option."
    )
    message = refused(capsys, "export", "m", "--form", "onnx", "--quantisation", "int8")
    assert message == (
        "The model cannot be exported: --form is no option; --quantisation is no option, did you mean --quantization?"
    )


def test_frequent_keys_have_options_of_their_own(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--dropout", "2", "--patience", "-1", "--warmup-updates", "x"]
    message = refused(capsys, *TRANSLATE, *wrong, "--label-smoothing", "half")
    for problem in (
        "optimizer.warmup_updates must be a whole number, not 'x' (--warmup-updates)",
        "label_smoothing must be a number, not 'half' (--label-smoothing)",
        "network.residual_dropout must",
        "loop.patience must be at least 0, not -1",
    ):
        assert problem in message
    assert "network.dropout must" in refused(capsys, *SING, *wrong)


@pytest.mark.parametrize("given", ["--beam", "--criterion", "--log-interval"])
def test_an_option_without_a_counterpart_gets_no_suggestion(
    here: Path, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    assert f"{given} is no option." in refused(capsys, *TRANSLATE, given, "7")
