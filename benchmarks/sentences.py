"""Real sentences for a trained model: what the natural-length run translates."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

from benchmarks.processes import Work
from models.checkpoint import new_token_limit, read

WAVES = 4  # sentences for each that is translated at once, so that some end while others go on


def read_sentences(checkpoint: Path, sentences: Path | None, data: Path | None) -> list[str]:
    """One a line; of Multi30k's folder the test set in the model's source language."""
    if sentences is None:
        assert data is not None
        sentences = data / f"test_2016_flickr.{read(checkpoint).config.source_language}.gz"
    text = gzip.decompress(sentences.read_bytes()) if sentences.suffix == ".gz" else sentences.read_bytes()
    return [line for line in text.decode("utf-8").splitlines() if line.strip()]


def natural_cells(
    checkpoint: Path, lines: Sequence[str], batches: Sequence[int], beam_batches: Sequence[int]
) -> dict[str, Work]:
    """ValueError if no sentence fits the model."""
    model = read(checkpoint)
    most = model.config.max_source_tokens
    encoded = [ids for ids in (model.source_ids(line) for line in lines) if len(ids) <= most]
    if not encoded:
        raise ValueError(f"None of the {len(lines)} sentences fits the model's {most} source tokens.")
    cells = {}
    for beam, sizes in ((1, batches), (4, beam_batches)):
        for batch in sizes:
            sources = tuple(encoded[: WAVES * batch])
            limits = tuple(new_token_limit(len(ids), model.config.max_new_tokens) for ids in sources)
            name = f"greedy, {batch} at once" if beam == 1 else f"beam {beam}, {batch} at once"
            cells[name] = Work(sources, limits, beam, batch)
    return cells
