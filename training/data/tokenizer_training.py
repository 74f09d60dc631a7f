"""Fits a tokenizer to texts."""

from __future__ import annotations

import io
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import sentencepiece

from models.checkpoint import sha256
from models.tokenizer import MarianTokenizer, SentencePieceTokenizer, SpecialTokens, Tokenizer, VocabularyTokenizer
from models.tokenizer.base import LANGUAGE
from training.config.run_config import TokenizerConfig
from training.data.text_array import selected
from training.errors import TrainingError, pluralize

PAD, UNKNOWN, BOS, EOS = 0, 1, 2, 3
SPECIAL_TOKENS = SpecialTokens(pad=PAD, unknown=UNKNOWN, bos=BOS, eos=EOS)
"""Of the tokenizers that this module fits. Others number them as they like: see `sequence_ids`."""


class SequenceIds(NamedTuple):
    """The special tokens around the sequences of a new translator. pad: of both sides. source_end: behind a source.
    start, end: of a target. suppressed: never generated."""

    pad: int
    source_end: int
    start: int
    end: int
    suppressed: tuple[int, ...]


def sequence_ids(tokenizers: Mapping[str, Tokenizer], source_end: str) -> SequenceIds:
    """The special tokens that the tokenizers define. As in Marian, padding and the start of a target share a token
    where a tokenizer has only one of the two. TrainingError if neither exists, if there is no end, or if the two sides
    number padding differently."""
    pads = {}
    for side, tokenizer in tokenizers.items():
        special = tokenizer.special
        pad = special.bos if special.pad is None else special.pad
        missing = "end of sentence (eos)" if special.eos is None else "padding (pad) and none for a start (bos)"
        if special.eos is None or pad is None:
            raise TrainingError(
                f"The {side} tokenizer has no token for {missing}, which a translator needs: train one that has it"
                " (spm_train --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3), or leave --tokenizer out."
            )
        pads[side] = pad
    if len(set(pads.values())) > 1:
        raise TrainingError(
            f"Padding has the id {pads['source']} in the source tokenizer and {pads['target']} in the target's, and a"
            " network has one for both: give one tokenizer for both sides, or two that agree."
        )
    source, target, pad = tokenizers["source"].special, tokenizers["target"].special, pads["target"]
    assert source.eos is not None and target.eos is not None
    start = pad if target.bos is None else target.bos
    suppressed = {pad, start} if target.unknown is None else {pad, start, target.unknown}
    return SequenceIds(
        pad, source.eos if source_end == "eos" else pad, start, target.eos, tuple(sorted(suppressed - {target.eos}))
    )


def fit_translator_tokenizers(
    config: TokenizerConfig, sources: Sequence[str], targets: Sequence[str], languages: Sequence[str] = ()
) -> dict[str, Tokenizer]:
    """{"source": ..., "target": ...}; the same tokenizer twice for a joint vocabulary. languages: the target languages
    of a multilingual corpus, whose sources begin with a language token: of each the vocabulary has one. SentencePiece
    is fitted to `config.sample_pairs` random pairs of a larger corpus, the same ones every time."""
    if config.kind == "sentencepiece" and len(sources) > config.sample_pairs:
        sample = sorted(random.Random(0).sample(range(len(sources)), config.sample_pairs))
        sources, targets = (list(selected(texts, sample)) for texts in (sources, targets))
    if languages:
        sources = [text[start.end() :].strip() if (start := LANGUAGE.match(text)) else text for text in sources]
    if config.joint:
        both = fit_tokenizer(config, [*sources, *targets], casefold=False, languages=languages)
        return {"source": both, "target": both}
    return {
        "source": fit_tokenizer(config, sources, casefold=config.casefold_source, languages=languages),
        "target": fit_tokenizer(config, targets, casefold=False),
    }


def tokenizer_config(
    tokenizers: Mapping[str, Tokenizer], source_end: Literal["eos", "pad"], recorded: Mapping[str, object]
) -> TokenizerConfig:
    """The options that describe existing tokenizers, without sampling. recorded: those of the run that made them, {} if
    unknown; they decide what a tokenizer does not tell."""
    source, target = tokenizers["source"], tokenizers["target"]
    joint = source.size == target.size and all(source.piece(i) == target.piece(i) for i in range(source.size))
    own = {name: str(value) for name, value in recorded.items() if name in ("pad_piece", "bos_piece", "eos_piece")}
    return TokenizerConfig(
        kind="word" if target.kind == "word" else "character" if target.kind == "character" else "sentencepiece",
        algorithm="unigram" if recorded.get("algorithm", algorithm_of(target)) == "unigram" else "bpe",
        vocab_size=max(source.size, target.size),
        joint=joint,
        casefold_source=recorded.get("casefold_source") is True and not joint,
        source_end=source_end,
        **own,  # type: ignore[arg-type]
    )


def algorithm_of(tokenizer: Tokenizer) -> str:
    """bpe or unigram. SentencePiece scores BPE's pieces 0, -1, -2, ... and a unigram model's by log-probability."""
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return "unigram" if isinstance(tokenizer, MarianTokenizer) else "bpe"
    return "bpe" if all(score.is_integer() for score in tokenizer.scores()) else "unigram"


def tokenizer_digest(tokenizers: Mapping[str, Tokenizer]) -> str:
    """SHA-256 of the tokenizers' files."""
    with TemporaryDirectory() as folder:
        digests = []
        for side, tokenizer in sorted(tokenizers.items()):
            path = Path(folder) / side
            tokenizer.write(path)
            digests.append(f"{side} {sha256(path)}")
    return ", ".join(digests)


def fit_tokenizer(
    config: TokenizerConfig, texts: Sequence[str], *, casefold: bool, languages: Sequence[str] = ()
) -> Tokenizer:
    if config.kind == "sentencepiece":
        return sentencepiece_tokenizer(texts, config, casefold=casefold, targets=languages)
    if config.kind == "word":
        return word_tokenizer(config, texts)
    return VocabularyTokenizer("character", [*_special_pieces(config), *sorted(set().union(*texts))], SPECIAL_TOKENS)


def _special_pieces(config: TokenizerConfig) -> list[str]:
    return [config.pad_piece, "<unk>", config.bos_piece, config.eos_piece]


def word_tokenizer(config: TokenizerConfig, texts: Iterable[str]) -> VocabularyTokenizer:
    """White-space separated words, most frequent first."""
    counts = Counter(word for text in texts for word in text.split())
    specials = _special_pieces(config)
    if taken := [word for word in specials if word in counts]:
        raise TrainingError(f"The corpus uses {taken[0]!r} as a word, and this recipe as a special token: rename it.")
    return VocabularyTokenizer("word", [*specials, *(w for w, _ in counts.most_common())], SPECIAL_TOKENS)


def character_tokenizer(text: str, *, unknown: bool) -> VocabularyTokenizer:
    """The distinct characters in code point order, after the unknown token if `unknown`."""
    special = SpecialTokens(pad=None, unknown=0) if unknown else SpecialTokens(pad=None)
    return VocabularyTokenizer("character", [*(["<unk>"] if unknown else []), *sorted(set(text))], special)


def language_token(code: str) -> str:
    """The token before a source that selects the target language, as in OPUS-MT's models."""
    return f">>{code}<<"


def language_ids(tokenizer: Tokenizer) -> Mapping[str, int]:
    """The language tokens of a vocabulary, with their ids."""
    if isinstance(tokenizer, SentencePieceTokenizer):
        return tokenizer.languages
    if isinstance(tokenizer, MarianTokenizer):
        return {piece: tokenizer.vocabulary.index(piece) for piece in tokenizer.languages}
    return {}


def sentencepiece_tokenizer(
    texts: Sequence[str], config: TokenizerConfig, *, casefold: bool, targets: Sequence[str] = ()
) -> SentencePieceTokenizer:
    """BPE (Sennrich et al. 2016) or a unigram model (Kudo 2018) of at most `config.vocab_size` pieces. targets: target
    languages, each with a language token."""
    try:
        return _train_sentencepiece(texts, config, config.vocab_size, casefold, targets)
    except RuntimeError as error:
        if possible := re.search(r"value <= (\d+)", str(error)):
            return _train_sentencepiece(texts, config, int(possible[1]), casefold, targets)
        if re.search(r"required_chars|smaller than|insert_id|vocab_size\(\)\) > \(0\)", str(error)):
            small = f"A vocabulary of {pluralize(config.vocab_size, 'piece')}"
            raise TrainingError(f"{small} cannot hold every character of this corpus: choose a larger one.") from error
        raise TrainingError(f"SentencePiece could not make a vocabulary from this corpus ({error}).") from error


def _train_sentencepiece(
    texts: Sequence[str], config: TokenizerConfig, size: int, casefold: bool, targets: Sequence[str]
) -> SentencePieceTokenizer:
    model = io.BytesIO()
    # control symbols: a text never encodes to them by its characters
    control_symbols = [language_token(code) for code in targets]
    words = [symbol.strip() for symbol in config.symbols.split(",")] if config.symbols else []
    # with the space before them, or that would be a piece of its own
    symbols = [f"▁{word.casefold() if casefold else word}" for word in words]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=size,
        model_type=config.algorithm,
        character_coverage=1.0,
        normalization_rule_name="nmt_nfkc_cf" if casefold else "nmt_nfkc",
        max_sentence_length=1 << 20,  # bytes; SentencePiece silently drops longer lines
        num_threads=1,  # the result must not depend on the machine
        pad_id=PAD,
        unk_id=UNKNOWN,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=2,
        control_symbols=control_symbols,
        user_defined_symbols=symbols,
    )
    return SentencePieceTokenizer(model.getvalue())
