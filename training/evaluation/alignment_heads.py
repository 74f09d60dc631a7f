"""Selects the cross-attention heads that align words best, by error rate on sentences with known alignment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from models.checkpoint import Checkpoint
from models.inspection.forced_pass import forced_pass
from models.inspection.word_alignment import AlignmentExample, GoldLinks, choose_alignment
from models.networks.transformer import Transformer
from models.tokenizer import Tokenizer
from training.errors import TrainingError

MAX_SENTENCES = 1000  # one half to choose heads, the other half to measure the choice
MIN_SENTENCES = 10


@dataclass(frozen=True, slots=True)
class AlignedSentence:
    """A sentence pair, words joined by single spaces, and its gold word alignment."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    gold: GoldLinks


def choose_alignment_heads(
    checkpoint: Checkpoint, network: Transformer, aligned: Sequence[AlignedSentence]
) -> dict[str, object]:
    """`CheckpointConfig.alignment`; its error is of held-out sentences. TrainingError for too few sentences."""
    sample = aligned[:: max(1, len(aligned) // MAX_SENTENCES)][:MAX_SENTENCES]
    if len(sample) < MIN_SENTENCES:
        needed = f"at least {MIN_SENTENCES} sentences, not on {len(sample)}"
        raise TrainingError(f"An alignment is chosen and measured on {needed}.")
    examples = list(_examples(checkpoint, network, sample))
    best = choose_alignment(examples[::2])[0]
    return {
        "heads": [list(head) for head in best.heads],
        "convention": best.convention,
        "error": round(best.error_on(examples[1::2]), 4),
        "sentences": len(examples[1::2]),
    }


def _examples(
    checkpoint: Checkpoint, network: Transformer, aligned: Iterable[AlignedSentence]
) -> Iterator[AlignmentExample]:
    config, reader, writer = checkpoint.config, checkpoint.tokenizers["source"], checkpoint.tokenizers["target"]
    assert config.eos is not None
    network.eval()
    for sentence in aligned:
        source_text, target_text = " ".join(sentence.source), " ".join(sentence.target)
        source, inputs = checkpoint.source_ids(source_text), checkpoint.target_ids(target_text)
        before = len(checkpoint.source_prefix(reader.encode(source_text)))
        maps = forced_pass(network, source, inputs, ("cross",)).maps["cross"]
        units = [None] * before + word_units(reader, source_text, sentence.source) + [None] * len(config.source_suffix)
        yield AlignmentExample(maps, units, [*word_units(writer, target_text, sentence.target), None], sentence.gold)


def word_units(tokenizer: Tokenizer, text: str, words: Sequence[str]) -> list[int | None]:
    """For each token of the words joined by spaces, the index of the word in which its text begins."""
    word_of: list[int | None] = []  # by character
    for index, word in enumerate(words):
        word_of += [index] * len(word) + [None]  # None for the space after it
    return [
        next((index for index in word_of[piece.start : piece.end] if index is not None), None)
        for piece in tokenizer.pieces(text)
    ]
