"""Fits a tokenizer to texts."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import sentencepiece

from models.checkpoint import sha256
from models.tokenizer import SentencePieceTokenizer, SpecialTokens, Tokenizer, VocabularyTokenizer
from training.config.run_config import TokenizerConfig
from training.errors import TrainingError, pluralize

PAD, UNKNOWN, BOS, EOS = 0, 1, 2, 3
SPECIAL_TOKENS = SpecialTokens(pad=PAD, unknown=UNKNOWN, bos=BOS, eos=EOS)


def fit_translator_tokenizers(config: TokenizerConfig, sources: list[str], targets: list[str]) -> dict[str, Tokenizer]:
    """{"source": ..., "target": ...}; the same tokenizer twice for a joint vocabulary."""
    if config.joint:
        both = fit_tokenizer(config, [*sources, *targets], casefold=False)
        return {"source": both, "target": both}
    return {
        "source": fit_tokenizer(config, sources, casefold=config.casefold_source),
        "target": fit_tokenizer(config, targets, casefold=False),
    }


def tokenizer_digest(tokenizers: Mapping[str, Tokenizer]) -> str:
    """SHA-256 of the tokenizers' files."""
    with TemporaryDirectory() as folder:
        digests = []
        for side, tokenizer in sorted(tokenizers.items()):
            path = Path(folder) / side
            tokenizer.write(path)
            digests.append(f"{side} {sha256(path)}")
    return ", ".join(digests)


def fit_tokenizer(config: TokenizerConfig, texts: list[str], *, casefold: bool) -> Tokenizer:
    if config.kind == "sentencepiece":
        return sentencepiece_tokenizer(texts, config, casefold=casefold)
    if config.kind == "word":
        return word_tokenizer(config, texts)
    return VocabularyTokenizer("character", [*_special_pieces(config), *sorted(set("".join(texts)))], SPECIAL_TOKENS)


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


def sentencepiece_tokenizer(texts: list[str], config: TokenizerConfig, *, casefold: bool) -> SentencePieceTokenizer:
    """BPE (Sennrich et al. 2016) or a unigram model (Kudo 2018) of at most `config.vocab_size` pieces."""
    try:
        return _train_sentencepiece(texts, config.algorithm, config.vocab_size, casefold)
    except RuntimeError as error:
        if possible := re.search(r"value <= (\d+)", str(error)):
            return _train_sentencepiece(texts, config.algorithm, int(possible[1]), casefold)
        if re.search(r"required_chars|smaller than|insert_id|vocab_size\(\)\) > \(0\)", str(error)):
            small = f"A vocabulary of {pluralize(config.vocab_size, 'piece')}"
            raise TrainingError(f"{small} cannot hold every character of this corpus: choose a larger one.") from error
        raise TrainingError(f"SentencePiece could not make a vocabulary from this corpus ({error}).") from error


def _train_sentencepiece(texts: list[str], algorithm: str, size: int, casefold: bool) -> SentencePieceTokenizer:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=size,
        model_type=algorithm,
        character_coverage=1.0,
        normalization_rule_name="nmt_nfkc_cf" if casefold else "nmt_nfkc",
        max_sentence_length=1 << 20,  # bytes; SentencePiece silently drops longer lines
        num_threads=1,  # the result must not depend on the machine
        pad_id=PAD,
        unk_id=UNKNOWN,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=2,
    )
    return SentencePieceTokenizer(model.getvalue())
