"""Tokenizers of a new network: fitted to texts, or existing ones (`--tokenizer`)."""

from __future__ import annotations

import io
import json
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import sentencepiece

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError, sha256
from models.tokenizer import (
    MarianTokenizer,
    SentencePieceTokenizer,
    SpecialTokens,
    Tokenizer,
    VocabularyTokenizer,
    read_tokenizer,
)
from models.tokenizer.base import LANGUAGE
from training.config.run_config import TokenizerConfig
from training.data.stored_corpus import selected
from training.errors import TrainingError, os_error_reason, pluralize

PAD, UNKNOWN, BOS, EOS = 0, 1, 2, 3
BYTES = 256
UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Characters of scripts without spaces: Thai, Lao, Tibetan, Burmese, Khmer, kana and Han."""
UNSPACED_SHARE = 0.1  # of a corpus' characters, from which on its vocabulary is limited
SPECIAL_TOKENS = SpecialTokens(pad=PAD, unknown=UNKNOWN, bos=BOS, eos=EOS)
"""Of the tokenizers that this module fits. Others number them as they like: see `sequence_ids`."""


class SequenceIds(NamedTuple):
    """The special tokens around the sequences of a new translator. pad: of both sides. source_end: after a source.
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
        both = fit_tokenizer(config, [*sources, *targets], languages)
        return {"source": both, "target": both}
    return {
        "source": fit_tokenizer(config, sources, languages),
        "target": fit_tokenizer(config, targets),
    }


def tokenizer_config(
    tokenizers: Mapping[str, Tokenizer], source_end: Literal["eos", "pad"], recorded: Mapping[str, object]
) -> TokenizerConfig:
    """The options that describe existing tokenizers. recorded: those of the run that made them, {} if
    unknown; they decide what a tokenizer does not tell."""
    source, target = tokenizers["source"], tokenizers["target"]
    joint = source.size == target.size and all(source.piece(i) == target.piece(i) for i in range(source.size))
    own = {name: str(value) for name, value in recorded.items() if name in ("pad_piece", "bos_piece", "eos_piece")}
    return TokenizerConfig(
        kind="word" if target.kind == "word" else "character" if target.kind == "character" else "sentencepiece",
        vocab_size=max(source.size, target.size),
        joint=joint,
        source_end=source_end,
        **own,  # type: ignore[arg-type]
    )


def tokenizer_digest(tokenizers: Mapping[str, Tokenizer]) -> str:
    """SHA-256 of the tokenizers' files."""
    with TemporaryDirectory() as folder:
        digests = []
        for side, tokenizer in sorted(tokenizers.items()):
            path = Path(folder) / side
            tokenizer.write(path)
            digests.append(f"{side} {sha256(path)}")
    return ", ".join(digests)


def fit_tokenizer(config: TokenizerConfig, texts: Sequence[str], languages: Sequence[str] = ()) -> Tokenizer:
    if config.kind == "sentencepiece":
        return sentencepiece_tokenizer(texts, config, languages)
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


def character_tokenizer(text: str, *, unknown: bool, letters_only: bool = False) -> VocabularyTokenizer:
    """The distinct characters in code point order, after the unknown token if `unknown`. letters_only: texts are read
    as `only_letters` writes them."""
    special = SpecialTokens(pad=None, unknown=0) if unknown else SpecialTokens(pad=None)
    characters = [*(["<unk>"] if unknown else []), *sorted(set(text))]
    return VocabularyTokenizer("character", characters, special, letters_only=letters_only)


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
    texts: Sequence[str], config: TokenizerConfig, targets: Sequence[str] = ()
) -> SentencePieceTokenizer:
    """BPE (Sennrich et al. 2016) of at most `config.vocab_size` pieces. targets: target
    languages, each with a language token."""
    size = min(config.vocab_size, _pieces_that_recur(texts, config) + len(targets))
    try:
        return _train_sentencepiece(texts, config, size, targets)
    except RuntimeError as error:
        if possible := re.search(r"value <= (\d+)", str(error)):
            return _train_sentencepiece(texts, config, int(possible[1]), targets)
        if re.search(r"required_chars|smaller than|insert_id|vocab_size\(\)\) > \(0\)", str(error)):
            small = f"A vocabulary of {pluralize(config.vocab_size, 'piece')}"
            least = re.search(r"\d+ vs (\d+)", str(error))
            way = f"it takes at least {int(least[1]):,}" if least else "choose a larger one"
            raise TrainingError(f"{small} cannot hold every character of this corpus: {way}.") from error
        raise TrainingError(f"SentencePiece could not make a vocabulary from this corpus ({error}).") from error


def _pieces_that_recur(texts: Sequence[str], config: TokenizerConfig) -> int:
    """How large a vocabulary a text without spaces bears: its characters, and pieces that it repeats. Without spaces a
    whole sentence may become one piece, which a small corpus has once, and a network learns nothing of it. Gowda and
    May (2020, arXiv 2004.02334) find vocabularies best whose tokens mostly occur a hundred times."""
    per_piece, count, unspaced = config.characters_per_piece, 0, 0
    distinct, words = {" "}, set[str]()
    for text in texts:
        count += len(text)
        if not per_piece or count >= per_piece * config.vocab_size:
            return config.vocab_size
        own = len(UNSPACED.findall(text))
        unspaced += own
        distinct.update(unicodedata.normalize("NFKC", text))
        words.update(text.split() if not own else (word for word in text.split() if not UNSPACED.search(word)))
    if unspaced < UNSPACED_SHARE * count:
        return config.vocab_size
    of_words = min((count - unspaced) // per_piece, sum(map(len, words)))  # there are no more merges
    further = len(SPECIAL_TOKENS.ids) + len(config.symbols.split(",")) + BYTES * config.byte_fallback
    return len(distinct) + further + unspaced // per_piece + of_words


def _train_sentencepiece(
    texts: Sequence[str], config: TokenizerConfig, size: int, targets: Sequence[str]
) -> SentencePieceTokenizer:
    model = io.BytesIO()
    # control symbols: a text never encodes to them by its characters
    control_symbols = [language_token(code) for code in targets]
    words = [symbol.strip() for symbol in config.symbols.split(",")] if config.symbols else []
    # with the space before them, or that would be a piece of its own
    symbols = [f"▁{word}" for word in words]
    # the file records options that are given: false would be another file than that of earlier versions' runs
    further: dict[str, Any] = {"byte_fallback": True} if config.byte_fallback else {}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=size,
        model_type="bpe",
        character_coverage=1.0,
        normalization_rule_name="nmt_nfkc",
        max_sentence_length=1 << 20,  # bytes; SentencePiece silently drops longer lines
        num_threads=1,  # the result must not depend on the machine
        pad_id=PAD,
        unk_id=UNKNOWN,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=2,
        control_symbols=control_symbols,
        user_defined_symbols=symbols,
        **further,
    )
    return SentencePieceTokenizer(model.getvalue())


TAKES = "a translator's checkpoint folder, a SentencePiece .model file, or two with a comma between (source,target)"


def read_tokenizers(given: str) -> tuple[dict[str, Tokenizer], Mapping[str, object]]:
    """{"source": ..., "target": ...}, the same one twice for a single file, and the options of the run that made them
    ({} for files). given: as `--tokenizer` names them. TrainingError if they cannot be read, or if they lack the
    special tokens of a translator."""
    path = Path(given)
    recorded: Mapping[str, object] = {}
    if path.is_dir():
        tokenizers, recorded = _of_checkpoint(path)
    elif path.is_file():
        tokenizers = dict.fromkeys(("source", "target"), _of_file(path))
    else:
        parts = [Path(part) for part in given.split(",")]
        missing = [part for part in parts if not part.is_file()]
        if len(parts) != 2 or missing:
            problem = f"There is no {missing[0]}" if len(parts) == 2 else f"There is no {given}"
            raise TrainingError(f"{problem}: --tokenizer takes {TAKES}.")
        tokenizers = {"source": _of_file(parts[0]), "target": _of_file(parts[1])}
    sequence_ids(tokenizers, "eos")
    return tokenizers, recorded


def _of_checkpoint(folder: Path) -> tuple[dict[str, Tokenizer], Mapping[str, object]]:
    try:
        checkpoint = checkpoints.read(folder)
    except CheckpointError as error:
        text = str(error).rstrip(".")
        raise TrainingError(f"{text}: --tokenizer takes {TAKES}.") from error
    if checkpoint.config.kind != "translator":
        raise TrainingError(f"{folder} is a lyricist, which has one tokenizer only: --tokenizer takes {TAKES}.")
    recorded = checkpoint.config.training.get("tokenizer")
    return dict(checkpoint.tokenizers), recorded if isinstance(recorded, Mapping) else {}


def _of_file(path: Path) -> Tokenizer:
    """A SentencePiece model, or a vocabulary of a checkpoint folder (.json)."""
    try:
        if path.suffix == ".json":
            kind = json.loads(path.read_text(encoding="utf-8"))["kind"]
            return read_tokenizer(kind, path)
        return SentencePieceTokenizer.read(path)
    except OSError as error:
        raise TrainingError(f"{os_error_reason(error)}.") from error
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{path} is no tokenizer that can be read: --tokenizer takes {TAKES}.") from error
