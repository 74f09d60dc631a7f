"""The commands of `python -m training`."""

from __future__ import annotations

from training.cli import (
    demo_command,
    distil,
    evaluate_command,
    inspect_corpus,
    recipes_command,
    train_lyrics,
    train_translator,
)
from training.cli import import_command as import_marian

COMMANDS = (
    train_translator,
    train_lyrics,
    demo_command,
    evaluate_command,
    distil,
    recipes_command,
    inspect_corpus,
    import_marian,
)
