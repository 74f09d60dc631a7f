"""Texts that a network makes while it learns: held-out sentences translated, or a text gone on with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from models.checkpoint import Checkpoint
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions
from models.interface import Network, Prompt
from training.evaluation.scores import token_rules

Sample = tuple[str, str, str]
"""Source, reference, what the network made. A lyricist's reference is ""."""
SAMPLE_CHARACTERS = 120  # at a validation
TEMPERATURE = 0.8
REPETITION = re.compile(r"(.{1,60}?)\1{3,}", re.DOTALL)
MIN_SHORTENED_CHARACTERS = 40  # characters of a run, before it is shortened


def sample_lyrics(
    checkpoint: Checkpoint, network: Network, openings: Sequence[str], characters: int, *, temperature: float, seed: int
) -> list[str]:
    """What a lyricist writes behind each opening. The draws are those of (seed + place, step) alone, so that training's
    own random numbers stay as they are."""
    prompts = [Prompt((), checkpoint.target_ids(opening)) for opening in openings]
    options = [
        DecodingOptions(max_new_tokens=characters, temperature=temperature, seed=seed + place, scores=False)
        for place in range(len(prompts))
    ]
    results = decode(network, token_rules(checkpoint.config), prompts, options, slots=min(64, len(prompts)))
    return [checkpoint.decode(hypotheses[0].tokens) for hypotheses in results]


def validation_sample(checkpoint: Checkpoint, network: Network, train: str, seed: int) -> tuple[Sample, ...]:
    """One text of a lyricist, behind the first line of what it learns from."""
    opening = train.lstrip()[:20].split("\n")[0] or train[:1]
    (text,) = sample_lyrics(checkpoint, network, [opening], SAMPLE_CHARACTERS, temperature=TEMPERATURE, seed=seed)
    return ((opening, "", text),)


def samples_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """samples.md: under each source its reference, and what came of it at each validation."""
    said: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for row in rows:
        for source, reference, made in row["samples"]:
            said.setdefault((source, reference), []).append((row["update"], made))
    parts = ["# Samples\n\nWhat the network made of these texts while it learnt.\n"]
    for (source, reference), versions in said.items():
        wanted = f"Reference: {escape_markdown(reference)}\n\n" if reference else ""
        table = "".join(f"| {update:,} | {escape_markdown(shorten_repetition(made))} |\n" for update, made in versions)
        parts.append(f"## {escape_markdown(source)}\n\n{wanted}| update | text |\n|---:|---|\n{table}")
    return "\n".join(parts)


def shorten_repetition(text: str) -> str:
    """A phrase that is said over and over stands twice, with its count; a network that has learnt little says it until
    the limit."""

    def counted(found: re.Match[str]) -> str:
        run, phrase = found[0], found[1]
        if len(run) < MIN_SHORTENED_CHARACTERS:
            return run
        apart = "" if found.string[found.end() :][:1] in ("", " ") else " "
        return f"{(phrase * 2).rstrip()} … ({len(run) // len(phrase)} times){apart}"

    return REPETITION.sub(counted, text).rstrip(" ")


def escape_markdown(text: str) -> str:
    """One line that Markdown shows as it is."""
    for mark in "\\`*_|<>#[]":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", "<br>") or "(nothing)"
