"""Selects the cross-attention heads that align words best, by error rate on sentences with known alignment.

Four hundred phrases with known alignment come with the corpus `everyday`, in its four languages. Each word is followed
by the numbers of the concepts that it expresses, and words of two languages that share a concept are linked."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from models.checkpoint import Checkpoint
from models.inspection.forced_pass import forced_pass
from models.inspection.word_alignment import AlignmentExample, GoldLinks, choose_alignment
from models.networks.transformer import Transformer
from models.tokenizer import Tokenizer
from training.config.corpus_languages import LanguageCodes
from training.config.shipped_corpora import ROOT
from training.errors import TrainingError

MAX_SENTENCES = 1000  # one half to choose heads, the other half to measure the choice
MIN_SENTENCES = 10
PHRASES = ROOT / "alignments.tsv"


@dataclass(frozen=True, slots=True)
class AlignedSentence:
    """The words of a sentence and of its translation, of languages `pair`, and its gold word alignment."""

    pair: LanguageCodes
    source: tuple[str, ...]
    target: tuple[str, ...]
    gold: GoldLinks


def aligned_phrases(pairs: Sequence[LanguageCodes]) -> list[AlignedSentence]:
    """The phrases of the corpus `everyday`, in a random order; [] for other languages."""
    header, *lines = PHRASES.read_text(encoding="utf-8").splitlines()
    codes = header.split("\t")
    made = [
        aligned_sentence(pair, dict(zip(codes, line.split("\t"), strict=True)))
        for line in lines
        for pair in pairs
        if {*pair} <= {*codes}
    ]
    random.Random(0).shuffle(made)
    return made


def aligned_sentence(pair: LanguageCodes, phrase: Mapping[str, str]) -> AlignedSentence:
    """phrase: by language the words, as "kein/3 bier/4"."""
    source, target = ([word.rpartition("/") for word in phrase[code].split()] for code in pair)
    concepts = [[{*numbers.split(",")} for _, _, numbers in side] for side in (source, target)]
    links = frozenset(
        (i, j) for i, here in enumerate(concepts[0]) for j, there in enumerate(concepts[1]) if here & there
    )
    words = [tuple(word for word, _, _ in side) for side in (source, target)]
    return AlignedSentence(pair, words[0], words[1], GoldLinks(links, links))


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
    checkpoint: Checkpoint, network: Transformer, aligned: Sequence[AlignedSentence]
) -> Iterator[AlignmentExample]:
    reader, writer = checkpoint.tokenizers["source"], checkpoint.tokenizers["target"]
    assert checkpoint.config.eos is not None
    network.eval()
    of_pair = {pair: checkpoint.for_pair(*pair) for pair in {sentence.pair for sentence in aligned}}
    for sentence in aligned:
        spoken = of_pair[sentence.pair]
        source_text, target_text = joined(sentence.source, sentence.pair[0]), joined(sentence.target, sentence.pair[1])
        source, inputs = spoken.source_ids(source_text), spoken.target_ids(target_text)
        before = len(spoken.source_prefix(reader.encode(source_text)))
        maps = forced_pass(network, source, inputs, ("cross",)).maps["cross"]
        after = [None] * len(checkpoint.config.source_suffix)
        units = [None] * before + word_units(reader, source_text, sentence.source) + after
        yield AlignmentExample(maps, units, [*word_units(writer, target_text, sentence.target), None], sentence.gold)


def joined(words: Sequence[str], language: str) -> str:
    return ("" if language == "zh" else " ").join(words)


def word_units(tokenizer: Tokenizer, text: str, words: Sequence[str]) -> list[int | None]:
    """For each token of the text, which has the words in this order, the index of the word in which its text begins."""
    word_of: list[int | None] = [None] * len(text)  # by character
    end = 0
    for index, word in enumerate(words):
        start = text.index(word, end)
        end = start + len(word)
        word_of[start:end] = [index] * len(word)
    return [
        next((index for index in word_of[piece.start : piece.end] if index is not None), None)
        for piece in tokenizer.pieces(text)
    ]
