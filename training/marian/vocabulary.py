"""vocab.json, source.spm, target.spm and tokenizer_config.json -> the two tokenizers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from models.tokenizer import MarianTokenizer, SpecialTokens
from training.errors import TrainingError
from training.marian.added import AddedTokens, added_tokens
from training.marian.folder import MarianFolder, first_line

VOCABULARY, TARGET_VOCABULARY, OPTIONS = "vocab.json", "target_vocab.json", "tokenizer_config.json"


def tokenizers_of(folder: MarianFolder, rows: tuple[int, int]) -> dict[str, MarianTokenizer]:
    """{"source": ..., "target": ...}. rows: of the two embeddings."""
    options = folder.object(OPTIONS, required=False)
    if options.get("sp_model_kwargs"):
        raise TrainingError(f"{folder.path / OPTIONS} sets sp_model_kwargs, which are not supported.")
    separate = bool(options.get("separate_vocabs", False))
    added = added_tokens(folder, options)
    names = {"source": VOCABULARY, "target": TARGET_VOCABULARY if separate else VOCABULARY}
    vocabularies = {side: vocabulary(folder, name) for side, name in names.items()}
    ids = added.ids(vocabularies["source"])  # the ids of special tokens are the same on both sides
    models = {side: folder.data(f"{side}.spm") for side in names}
    # transformers joins the pieces of a common vocabulary with the source's model
    common = not separate and models["source"] != models["target"]
    made = {}
    for side, count in zip(names, rows, strict=True):
        pieces = in_order(vocabularies[side] | ids, folder.path / names[side], count)
        writer = models["source"] if common and side == "target" else None
        made[side] = _tokenizer(added, ids, pieces, models[side], writer, folder.path / f"{side}.spm")
    return made


def _tokenizer(
    added: AddedTokens, ids: Mapping[str, int], pieces: list[str], model: bytes, writer: bytes | None, path: Path
) -> MarianTokenizer:
    pad, unknown, eos = (ids[added.special[name]] for name in ("pad_token", "unk_token", "eos_token"))
    hidden = [ids[piece] for piece in added.hidden]
    try:
        return MarianTokenizer(pieces, SpecialTokens(pad, unknown, None, eos), model, writer, ids, hidden)
    except RuntimeError as error:
        raise TrainingError(f"{path} is no SentencePiece model that can be read ({first_line(error)}).") from error


def vocabulary(folder: MarianFolder, name: str) -> dict[str, int]:
    path = folder.path / name
    found: dict[str, Any] = folder.object(name)
    for piece, token in found.items():
        if not isinstance(token, int) or isinstance(token, bool) or token < 0:
            raise TrainingError(f"{path} gives {piece!r} the id {token!r}, which is none.")
    return found


def in_order(ids: Mapping[str, int], path: Path, rows: int) -> list[str]:
    """The pieces by their ids, which are 0..rows-1, each of them once."""
    pieces: dict[int, str] = {}
    for piece, token in ids.items():
        if token in pieces:
            raise TrainingError(f"{path} gives the id {token} to two tokens, {pieces[token]!r} and {piece!r}.")
        pieces[token] = piece
    if len(pieces) != rows:
        raise TrainingError(f"{path} names {len(pieces):,} tokens, and the embedding has {rows:,} rows.")
    for token in range(rows):
        if token not in pieces:
            raise TrainingError(f"{path} names no token for the id {token}.")
    return [pieces[token] for token in range(rows)]
