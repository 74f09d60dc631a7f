"""--clean on the command line, and the rules' own checks."""

from __future__ import annotations

import pytest

from tests.training.data.corpus_writers import refusal
from training.cli.command_options import RULES, cleaning_overrides
from training.config.overrides import assemble
from training.config.run_config import NO_CLEANING, CleaningConfig, TranslatorConfig


def cleaning_of(settings: list[str]) -> CleaningConfig:
    stated = [override for setting in settings for override in cleaning_overrides(setting)]
    return assemble(TranslatorConfig(recipe=""), stated).cleaning


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ([], CleaningConfig()),
        (["off"], NO_CLEANING),
        (["ratio=6"], CleaningConfig(ratio=6.0)),
        (["ratio=off", "ratio-tolerance=5"], CleaningConfig(ratio=None, ratio_tolerance=5)),
        (["duplicates=off", "overlap=either"], CleaningConfig(duplicates=False, overlap="either")),
        (["off", "broken=on", "max-characters=900"], CleaningConfig(
            broken=True, max_characters=900, identical_from=None, ratio=None, duplicates=False, overlap="off"
        )),
        (["identical_from=1"], CleaningConfig(identical_from=1)),
    ],
)  # fmt: skip
def test_clean_settings_become_cleaning_config(settings: list[str], wanted: CleaningConfig) -> None:
    assert cleaning_of(settings) == wanted


def test_every_field_is_named_in_the_help() -> None:
    assert RULES.replace("-", "_").split(", ") == list(CleaningConfig.__dataclass_fields__)


def test_all_problems_are_named_together() -> None:
    settings = ["colour=on", "duplicates=perhaps", "ratio=much", "ratio-tolerance=off", "max-characters=0", "overlap=x"]
    assert refusal(cleaning_of, settings) == (
        "This cannot start: cleaning.colour is no option (--clean);"
        " cleaning.duplicates must be true or false, not 'perhaps' (--clean);"
        " cleaning.ratio must be a number or none, not 'much' (--clean);"
        " cleaning.ratio_tolerance must be a whole number, not 'off' (--clean);"
        " cleaning.overlap must be one of off, pair, source, either, not 'x' (--clean);"
        " cleaning.max_characters must be at least 1, not 0."
    )


@pytest.mark.parametrize("settings", [["ratio=0.5"], ["ratio-tolerance=-1"], ["identical-from=0"]])
def test_values_out_of_range(settings: list[str]) -> None:
    assert refusal(cleaning_of, settings).startswith(f"This cannot start: cleaning.{settings[0].split('=')[0][:5]}")
    assert refusal(cleaning_of, ["ratio=nan"]) == (
        "This cannot start: cleaning.ratio must be a number or none, not 'nan' (--clean)."
    )


def test_full_configuration_checks_its_rules() -> None:
    def build() -> TranslatorConfig:
        return TranslatorConfig(recipe="x", cleaning=CleaningConfig(ratio=0.0))

    assert refusal(build) == "This cannot start: ratio must be at least 1, not 0."
