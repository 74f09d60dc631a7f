"""vocab.json, source.spm, target.spm and tokenizer_config.json -> source and target tokenizers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path

from models.checkpoint import MOST_TOKENIZER_BYTES, require_file
from models.tokenizer import MarianTokenizer, SpecialTokens
from training.errors import TrainingError
from training.importers.marian.hub_folder import JsonObject, MarianFolder, first_line

VOCABULARY_FILE, TARGET_VOCABULARY_FILE = "vocab.json", "target_vocab.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
DEFAULT_TOKENS = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
SPECIAL_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
EXTRA_TOKEN_FIELDS = ("extra_special_tokens", "additional_special_tokens")
UNSUPPORTED_FLAGS = ("lstrip", "rstrip", "single_word")


def tokenizers_of(folder: MarianFolder, rows: tuple[int, int]) -> dict[str, MarianTokenizer]:
    """Source and target tokenizers. rows: of the embeddings. Tokens matched in a text have transformers 5's ids."""
    options = folder.object(TOKENIZER_CONFIG_FILE, required=False)
    if options.get("sp_model_kwargs"):
        raise TrainingError(f"{folder.path / TOKENIZER_CONFIG_FILE} sets sp_model_kwargs, which are not supported.")
    separate, split = (bool(options.get(name, False)) for name in ("separate_vocabs", "split_special_tokens"))
    special, hidden, ids = _added_tokens(folder, options)
    names = {"source": VOCABULARY_FILE, "target": TARGET_VOCABULARY_FILE if separate else VOCABULARY_FILE}
    vocabularies = {side: read_vocabulary(folder, name) for side, name in names.items()}
    known = vocabularies["source"]  # special tokens have the same ids on both sides
    behind = count(len(known.keys() | ids.keys()))
    for piece in hidden:
        if piece not in ids:
            ids[piece] = known[piece] if piece in known else next(behind)
    pad, unknown, eos = (ids[special[name]] for name in ("pad_token", "unk_token", "eos_token"))
    models = {side: _model(folder.required(f"{side}.spm")) for side in names}
    # transformers decodes a common vocabulary with the source's model
    common = not separate and models["source"] != models["target"]
    tokenizers = {}
    for (side, name), size in zip(names.items(), rows, strict=True):
        pieces = pieces_by_id(vocabularies[side] | ids, folder.path / name, size)
        writer = models["source"] if common and side == "target" else None
        specials, silent = SpecialTokens(pad, unknown, None, eos), [ids[piece] for piece in hidden]
        try:
            tokenizers[side] = MarianTokenizer(pieces, specials, models[side], writer, ids, silent, split)
        except (RuntimeError, ValueError) as error:
            path = folder.path / f"{side}.spm"
            raise TrainingError(f"{path} is no SentencePiece model that can be read ({first_line(error)}).") from error
    return tokenizers


def _model(path: Path) -> bytes:
    try:
        require_file(path, MOST_TOKENIZER_BYTES)
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise TrainingError(f"{path} cannot be read ({first_line(error)}).") from error


def _added_tokens(folder: MarianFolder, options: JsonObject) -> tuple[dict[str, str], list[str], dict[str, int]]:
    """The special tokens, name -> piece; the pieces hidden in output, special ones included; and the folder's own ids.
    options: tokenizer_config.json. Folders of older versions have two more files."""
    options = dict(options)
    ids: dict[str, int] = {}
    if "added_tokens_decoder" in options:
        for number, token in options["added_tokens_decoder"].items():
            if not number.isdecimal():
                raise TrainingError(
                    f"tokenizer_config.json has {number!r} in added_tokens_decoder, where an id stands."
                )
            ids[piece_of(token)] = int(number)
    else:
        options |= folder.object("special_tokens_map.json", required=False)
        ids |= folder.object("added_tokens.json", required=False)
    special = {
        name: piece_of(token)
        for name in SPECIAL_TOKEN_NAMES
        if (token := options.get(name, DEFAULT_TOKENS.get(name))) is not None
    }
    if missing := [name for name in DEFAULT_TOKENS if name not in special]:
        raise TrainingError(f"The tokenizer has no {missing[0]}, and Marian's needs one.")
    named = [
        token
        for name, token in options.items()
        if name.endswith("_token") and name not in SPECIAL_TOKEN_NAMES and isinstance(token, str)
    ]
    extra = next(filter(None, map(options.get, EXTRA_TOKEN_FIELDS)), ())
    listed = map(piece_of, extra.values() if isinstance(extra, Mapping) else extra)
    return special, list(dict.fromkeys([*special.values(), *named, *listed])), ids


def piece_of(token: object) -> str:
    """A token is written as its piece, or as an object with the piece and matching options."""
    if isinstance(token, str):
        return token
    if isinstance(token, Mapping) and isinstance(token.get("content"), str):
        for name in UNSUPPORTED_FLAGS:
            if token.get(name):
                raise TrainingError(f"The token {token['content']} has {name} set, which is not supported.")
        return str(token["content"])
    raise TrainingError(f"The tokenizer's settings name a token {token!r}, which is none.")


def read_vocabulary(folder: MarianFolder, name: str) -> dict[str, int]:
    ids = folder.object(name)
    for piece, token in ids.items():
        if not isinstance(token, int) or isinstance(token, bool) or token < 0:
            raise TrainingError(f"{folder.path / name} gives {piece!r} the id {token!r}, which is none.")
    return dict(ids)


def pieces_by_id(ids: Mapping[str, int], path: Path, rows: int) -> list[str]:
    """The pieces in order of id; ids must be 0..rows-1, without duplicates."""
    pieces: dict[int, str] = {}
    for piece, token in ids.items():
        if (other := pieces.setdefault(token, piece)) != piece:
            raise TrainingError(f"{path} gives the id {token} to two tokens, {other!r} and {piece!r}.")
    if len(pieces) != rows:
        raise TrainingError(f"{path} names {len(pieces):,} tokens, and the embedding has {rows:,} rows.")
    for token in range(rows):
        if token not in pieces:
            raise TrainingError(f"{path} names no token for the id {token}.")
    return [pieces[token] for token in range(rows)]
