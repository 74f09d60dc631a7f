"""The tokens that a folder's tokenizer finds in a text as they are spelt: which, and their ids, as transformers 5
counts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from training.errors import TrainingError
from training.marian.folder import MarianFolder

DEFAULTS = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
EXTRA = ("extra_special_tokens", "additional_special_tokens")
CHANGING = ("lstrip", "rstrip", "single_word")


@dataclass(frozen=True, slots=True)
class AddedTokens:
    """special: the piece of each special token by its name; hidden: the pieces that no text shows, these among them;
    numbered: the ids that the folder itself gives to some."""

    special: Mapping[str, str]
    hidden: tuple[str, ...]
    numbered: Mapping[str, int]

    def ids(self, vocabulary: Mapping[str, int]) -> dict[str, int]:
        """Of all of them; those that the vocabulary does not know come behind it."""
        found = dict(self.numbered)
        size = len({**vocabulary, **found})
        for piece in self.hidden:
            if piece in found:
                continue
            if piece in vocabulary:
                found[piece] = vocabulary[piece]
            else:
                found[piece] = size
                size += 1
        return found


def added_tokens(folder: MarianFolder, options: Mapping[str, Any]) -> AddedTokens:
    """options: tokenizer_config.json. Folders of older versions have two files more."""
    options = dict(options)
    numbered: dict[str, int] = {}
    if "added_tokens_decoder" in options:
        for number, token in options["added_tokens_decoder"].items():
            if not number.isdecimal():
                raise TrainingError(
                    f"tokenizer_config.json has {number!r} in added_tokens_decoder, where an id stands."
                )
            numbered[piece_of(token)] = int(number)
    else:
        options |= folder.object("special_tokens_map.json", required=False)
        numbered |= folder.object("added_tokens.json", required=False)
    special = {name: piece_of(token) for name in NAMES if (token := options.get(name, DEFAULTS.get(name))) is not None}
    missing = [name for name in DEFAULTS if name not in special]
    if missing:
        raise TrainingError(f"The tokenizer has no {missing[0]}, and Marian's needs one.")
    hidden = tuple(dict.fromkeys([*special.values(), *_extra(options)]))
    return AddedTokens(special, hidden, numbered)


def _extra(options: Mapping[str, Any]) -> Iterator[str]:
    for name, token in options.items():
        if name.endswith("_token") and name not in NAMES and isinstance(token, str):
            yield token
    for name in EXTRA:
        tokens = options.get(name) or ()
        if tokens:
            yield from (piece_of(token) for token in (tokens.values() if isinstance(tokens, Mapping) else tokens))
            return


def piece_of(token: Any) -> str:
    """A token is written as its piece, or as an object that has it and says how it is looked for."""
    if isinstance(token, str):
        return token
    if isinstance(token, Mapping) and isinstance(token.get("content"), str):
        for name in CHANGING:
            if token.get(name):
                raise TrainingError(f"The token {token['content']} has {name} set, which is not supported.")
        return str(token["content"])
    raise TrainingError(f"The tokenizer's settings name a token {token!r}, which is none.")
