"""Lyricists by name."""

from __future__ import annotations

from collections.abc import Callable

from training.configuration.loop import LoopConfig
from training.configuration.lyrics import LyricsConfig
from training.configuration.optimizer import OptimizerConfig

MEDIUM_TEXT = 300_000  # characters


def small() -> LyricsConfig:
    """A text of 10,000 to a few 100,000 characters; the last tenth is held out and chooses the weights."""
    return LyricsConfig(
        recipe="small",
        network={"embedding": 128, "hidden": 256, "layers": 1, "dropout": 0.4},
        steps=64,
        rows=16,
        optimizer=OptimizerConfig(
            name="adamw",
            rate=4e-3,
            schedule="cosine",
            warmup_updates=50,
            betas=(0.9, 0.99),
            epsilon=1e-8,
            weight_decay=0.05,
        ),
        loop=LoopConfig(max_epochs=40, patience=8),
    )


def medium() -> LyricsConfig:
    """About a million characters, or what comes near it: 2.6 million parameters with a Latin alphabet."""
    return LyricsConfig(
        recipe="medium",
        network={
            "embedding": 128,
            "hidden": 512,
            "layers": 2,
            "embedding_dropout": 0.1,
            "dropout": 0.4,
            "recurrent_dropout": 0.2,
            "locked_dropout": True,
        },
        steps=128,
        rows=16,
        optimizer=OptimizerConfig(
            name="adamw",
            rate=2e-3,
            schedule="cosine",
            warmup_updates=100,
            final_fraction=0.03,
            betas=(0.9, 0.99),
            epsilon=1e-8,
            weight_decay=0.1,
        ),
        loop=LoopConfig(max_epochs=12, average_decay=0.99),
    )


def lyricist_for(characters: int) -> str:
    """The name of the recipe for a text of so many characters."""
    return "medium" if characters >= MEDIUM_TEXT else "small"


def _tutorial(recipe: str, epochs: int) -> dict[str, object]:
    """What the tutorials share: hidden 256, 35 steps, batch 32, the first 10,000 characters with newlines as
    spaces, nothing held out, all gradients clipped to a norm of 0.01."""
    return {
        "recipe": recipe,
        "steps": 35,
        "rows": 32,
        "characters": 10_000,
        "newline_as_space": True,
        "valid_share": 0.0,
        "unknown": False,
        "offset": False,
        "loop": LoopConfig(max_epochs=epochs),
    }


def d2l_random() -> LyricsConfig:
    """From scratch, random sampling: one-hot input, one bias vector, N(0, 0.01) weights, SGD at 100."""
    return LyricsConfig(**{**_from_scratch("d2l-random", 250), "sampling": "random"})  # type: ignore[arg-type]


def d2l_consecutive() -> LyricsConfig:
    """From scratch, consecutive sampling, the hidden state carried over and detached."""
    return LyricsConfig(**_from_scratch("d2l-consecutive", 250))  # type: ignore[arg-type]


def _from_scratch(recipe: str, epochs: int) -> dict[str, object]:
    return {
        **_tutorial(recipe, epochs),
        "network": {"embedding": 0, "hidden": 256, "recurrent_bias": False},
        "initial_deviation": 0.01,
        "optimizer": OptimizerConfig(name="sgd", rate=100.0, clip_norm=0.01),
    }


def d2l_adam() -> LyricsConfig:
    """The framework's own cell with its default initialisation, consecutive sampling, Adam at 1e-3."""
    return LyricsConfig(
        **_tutorial("d2l-adam", 250),  # type: ignore[arg-type]
        network={"embedding": 0, "hidden": 256},
        optimizer=OptimizerConfig(rate=1e-3, betas=(0.9, 0.999), epsilon=1e-8, clip_norm=0.01),
    )


LYRICISTS: dict[str, Callable[[], LyricsConfig]] = {
    "small": small,
    "medium": medium,
    "d2l-random": d2l_random,
    "d2l-consecutive": d2l_consecutive,
    "d2l-adam": d2l_adam,
}
