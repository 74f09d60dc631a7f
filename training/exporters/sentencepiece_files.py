"""The tokenizer files of MarianTokenizer: SentencePiece models that split, and vocabularies that number the pieces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from models.tokenizer import MarianTokenizer, SentencePieceTokenizer, Tokenizer
from training.errors import TrainingError
from training.exporters.exportable import TITLES, Exportable, Form
from training.importers.marian.hub_folder import JsonObject
from training.importers.marian.tokenizer_conversion import (
    TARGET_VOCABULARY_FILE,
    TOKENIZER_CONFIG_FILE,
    VOCABULARY_FILE,
)

SubwordTokenizer = SentencePieceTokenizer | MarianTokenizer
SPECIAL_NAMES = {"eos_token": "eos", "unk_token": "unknown", "pad_token": "pad", "bos_token": "bos"}


def subword_tokenizers(model: Exportable, form: Form) -> dict[str, SubwordTokenizer]:
    """By side. TrainingError for a tokenizer of words or characters."""
    tokenizers: dict[str, SubwordTokenizer] = {}
    for side, tokenizer in model.checkpoint.tokenizers.items():
        if not isinstance(tokenizer, SubwordTokenizer):
            raise TrainingError(
                f"{TITLES[form]} splits texts with SentencePiece, and {model.checkpoint.folder} has a tokenizer of"
                f" {tokenizer.kind}s: use --to ctranslate2 or --to onnx, or train with tokenizer.kind = sentencepiece."
            )
        tokenizers[side] = tokenizer
    return tokenizers


def pieces_of(tokenizer: Tokenizer, rows: int) -> list[str]:
    """The piece of each id; rows of the embedding after the vocabulary get names of their own."""
    named = [tokenizer.piece(token) for token in range(tokenizer.size)]
    return named + [f"<unused {token}>" for token in range(tokenizer.size, rows)]


def write_tokenizer_files(model: Exportable, folder: Path, rows: tuple[int, int], form: Form) -> None:
    """source.spm, target.spm, vocab.json, target_vocab.json of a separate vocabulary, tokenizer_config.json and
    special_tokens_map.json. rows: of the embeddings of source and target."""
    tokenizers = subword_tokenizers(model, form)
    pieces = {side: pieces_of(tokenizers[side], size) for side, size in zip(("source", "target"), rows, strict=True)}
    separate = pieces["source"] != pieces["target"]
    settings = {**_tokenizer_settings(model, tokenizers, form), "separate_vocabs": separate}
    for side, tokenizer in tokenizers.items():
        (folder / f"{side}.spm").write_bytes(tokenizer.model)
    for name, side in ((VOCABULARY_FILE, "source"), *([(TARGET_VOCABULARY_FILE, "target")] if separate else [])):
        write_json(folder / name, {piece: token for token, piece in enumerate(pieces[side])})
    write_json(folder / TOKENIZER_CONFIG_FILE, settings)
    write_json(folder / "special_tokens_map.json", {name: settings[name] for name in SPECIAL_NAMES if name in settings})


def _tokenizer_settings(model: Exportable, tokenizers: Mapping[str, SubwordTokenizer], form: Form) -> JsonObject:
    config, source, target = model.config, tokenizers["source"], tokenizers["target"]
    special = {
        name: source.piece(token)
        for name, ours in SPECIAL_NAMES.items()
        if (token := getattr(source.special, ours)) is not None
    }
    for name in ("eos_token", "unk_token", "pad_token"):
        if name not in special:
            raise TrainingError(f"{TITLES[form]} needs a tokenizer with an {name}, and the model has none.")
    if source.special != target.special:
        raise TrainingError(
            f"{TITLES[form]} has the same special tokens on both sides, and this model's differ: use --to onnx."
        )
    if config.source_suffix != (source.special.eos,):
        raise TrainingError(
            f"{TITLES[form]} ends every source with its end token, and this model does not: use --to onnx."
        )
    settings: dict[str, object] = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.source_language,
        "target_lang": config.target_language,
        "model_max_length": config.max_source_tokens,
        "clean_up_tokenization_spaces": False,  # transformers 4 would take the space before a full stop away
        **special,
    }
    if not isinstance(source, MarianTokenizer) or source.split_added:
        settings["split_special_tokens"] = True  # </s> in a text is text
    if isinstance(source, MarianTokenizer):
        silent = source.special.ids | source.hidden
        settings["added_tokens_decoder"] = {
            str(token): {"content": piece, "special": token in silent, "normalized": False}
            for piece, token in source.added.items()
        }
        extra = [source.piece(token) for token in sorted(source.hidden - source.special.ids)]
        settings |= {"extra_special_tokens": extra} if extra else {}
    return settings


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
