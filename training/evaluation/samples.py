"""Texts that a lyricist writes."""

from __future__ import annotations

from collections.abc import Sequence

from models.backends.select import Network
from models.checkpoint import Checkpoint
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions
from models.interface import Prompt
from training.evaluation.scores import token_rules
from training.loop.progress import Sample

SAMPLE_CHARACTERS = 120  # at a validation
TEMPERATURE = 0.8


def sample_lyrics(
    checkpoint: Checkpoint, network: Network, openings: Sequence[str], characters: int, *, temperature: float, seed: int
) -> list[str]:
    """What a lyricist writes behind each opening. The draws depend on (seed + index, step) alone, and leave training's
    random numbers as they are."""
    prompts = [Prompt((), checkpoint.target_ids(opening)) for opening in openings]
    options = [
        DecodingOptions(max_new_tokens=characters, temperature=temperature, seed=seed + index, scores=False)
        for index in range(len(prompts))
    ]
    results = decode(network, token_rules(checkpoint.config), prompts, options, slots=min(64, len(prompts)))
    return [checkpoint.decode(hypotheses[0].tokens) for hypotheses in results]


def validation_sample(checkpoint: Checkpoint, network: Network, train: str, seed: int) -> tuple[Sample, ...]:
    """One text, behind the first line of the training text."""
    opening = train.lstrip()[:20].split("\n")[0] or train[:1]
    (text,) = sample_lyrics(checkpoint, network, [opening], SAMPLE_CHARACTERS, temperature=TEMPERATURE, seed=seed)
    return ((opening, "", text),)
