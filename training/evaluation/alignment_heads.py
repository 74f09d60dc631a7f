"""Which of a translator's heads align words best: chosen by the alignment error rate on sentences whose alignment is
known, and never by belief."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from models.checkpoint import Checkpoint
from models.inspection.forced_pass import forced_pass
from models.inspection.word_alignment import (
    AlignmentExample,
    GoldLinks,
    Units,
    alignment_error_rate,
    choose_alignment,
    link_pairs,
)
from models.networks.transformer import Transformer
from models.tokenizer import Tokenizer
from training.errors import TrainingError

MAX_SENTENCES = 1000  # of those that are known: one half to choose by, the other to say how good the choice is
MIN_SENTENCES = 10


@dataclass(frozen=True, slots=True)
class AlignedSentence:
    """A sentence pair, words joined by single spaces, and which words are translations of which."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    gold: GoldLinks


def choose_alignment_heads(
    checkpoint: Checkpoint, network: Transformer, known: Sequence[AlignedSentence]
) -> dict[str, Any]:
    """What `CheckpointConfig.alignment` holds. The error is of sentences that the choice did not see. TrainingError for
    too few sentences."""
    some = known[:: max(1, len(known) // MAX_SENTENCES)][:MAX_SENTENCES]
    if len(some) < MIN_SENTENCES:
        raise TrainingError(
            f"An alignment is chosen and measured on at least {MIN_SENTENCES} sentences, not on {len(some)}."
        )
    examples = list(_examples(checkpoint, network, some))
    best = choose_alignment(examples[::2]).best
    error = alignment_error_rate(
        (link_pairs(best.links(each.maps, each.source_units, each.target_units)), each.gold) for each in examples[1::2]
    )
    return {
        "heads": [list(place) for place in best.heads],
        "convention": best.convention,
        "error": round(error, 4),
        "sentences": len(examples[1::2]),
    }


def _examples(
    checkpoint: Checkpoint, network: Transformer, known: Iterable[AlignedSentence]
) -> Iterator[AlignmentExample]:
    config, reader, writer = checkpoint.config, checkpoint.tokenizers["source"], checkpoint.tokenizers["target"]
    assert config.eos is not None
    network.eval()
    for each in known:
        source_text, target_text = " ".join(each.source), " ".join(each.target)
        source, inputs = checkpoint.source_ids(source_text), checkpoint.target_ids(target_text)
        before = len(checkpoint.source_prefix(reader.encode(source_text)))
        maps = forced_pass(network, source, inputs, ("cross",)).maps["cross"]
        units = [None] * before + word_units(reader, source_text, each.source) + [None] * len(config.source_suffix)
        yield AlignmentExample(maps, units, [*word_units(writer, target_text, each.target), None], each.gold)


def word_units(tokenizer: Tokenizer, text: str, words: Sequence[str]) -> list[int | None]:
    """Of each token of the words joined by spaces, the number of the word in which its own text begins."""
    numbers: list[int | None] = []
    for number, word in enumerate(words):
        numbers += [number] * len(word) + [None]  # the space behind it
    found: Units = [_first_number(numbers[piece.start : piece.end]) for piece in tokenizer.pieces(text)]
    return list(found)


def _first_number(numbers: Sequence[int | None]) -> int | None:
    return next((number for number in numbers if number is not None), None)
