"""The language pair of a Marian checkpoint, and the target-language token of a multilingual one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

from training.errors import TrainingError
from training.importers.marian.hub_folder import JsonObject
from training.importers.marian.weight_conversion import RECORD

LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
NO_PREFIX = "none"
_CODES = [
    line.split()
    for line in (resources.files("training.importers.marian") / "language_codes.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
LANGUAGE_GROUPS = frozenset(code for star, *codes in _CODES if star == "*" for code in codes)
THREE_LETTERS = {two: tuple(three) for two, *three in _CODES if two != "*"}
TWO_LETTERS = {name: two for two, names in reversed(THREE_LETTERS.items()) for name in names}


class TokenNeeded(TrainingError):
    """A model with several target languages, and no choice among them."""


class Languages(NamedTuple):
    """A language pair. prefix: the token before every source, or None."""

    source: str
    target: str
    prefix: str | None


def choose_languages(
    source: str | None,
    target: str | None,
    prefix: str | None,
    options: JsonObject,
    config: JsonObject,
    tokens: Sequence[str],
) -> Languages:
    """source, target, prefix: the user's choices. options, config: tokenizer_config.json and config.json. tokens: the
    vocabulary's language tokens."""
    pair = {}
    recorded = recorded_languages(options, config)
    for side, given, known in (("source", source, recorded[0]), ("target", target, recorded[1])):
        code = given or known
        if code is None:
            raise TrainingError(f"The folder does not say which its {side} language is: give --{side}, such as de.")
        if not LANGUAGE_CODE.fullmatch(code) or code.lower() == "auto":
            raise TrainingError(f"--{side} must be a language code such as de or pt-BR, not {code!r}.")
        pair[side] = code
    return Languages(pair["source"], pair["target"], _prefix(prefix, pair["target"], tokens))


ALL = "all"


def language_pairs(
    source: str | None,
    target: str | None,
    prefix: str | None,
    options: JsonObject,
    config: JsonObject,
    tokens: Sequence[str],
) -> tuple[Languages, ...]:
    """Arguments as of `choose_languages`; source and target may name several languages with commas between, and a
    target "all" stands for those of all tokens. Without a choice, an export of ours has the pairs of its model."""
    if source is target is prefix is None and (exported := _exported_pairs(config, tokens)):
        return exported
    sources: Sequence[str | None] = source.split(",") if source else [None]
    targets: Sequence[str | None] = target.split(",") if target else [None]
    if target == ALL and not tokens:
        raise TrainingError("--target all is for models with language tokens, and this vocabulary has none: name one.")
    if prefix is not None and (target == ALL or len(targets) > 1):
        raise TrainingError("--prefix is the token of one target: leave it out, or give one --target.")
    if target == ALL:
        codes = {token: _code_of(token) for token in tokens}
        tokens_of = {code: token for token, code in codes.items() if list(codes.values()).count(code) == 1}
        tokens_of |= {_spelling(token): token for token, code in codes.items() if code not in tokens_of}
        origin = [choose_languages(each, "en", NO_PREFIX, options, config, tokens).source for each in sources]
        found = tuple(Languages(each, code, token) for each in origin for code, token in tokens_of.items())
    else:
        found = tuple(
            choose_languages(each, code, prefix, options, config, tokens) for each in sources for code in targets
        )
    pairs = tuple(dict.fromkeys(pair for pair in found if pair.source != pair.target)) if len(found) > 1 else found
    return pairs or found


def _exported_pairs(config: JsonObject, tokens: Sequence[str]) -> tuple[Languages, ...]:
    record = config.get(RECORD)
    listed = record.get("language_pairs") if isinstance(record, dict) else None
    pairs = [pair for pair in listed if isinstance(pair, list) and len(pair) == 3] if isinstance(listed, list) else []
    return tuple(Languages(*pair) for pair in pairs if pair[2] in tokens)


def _spelling(token: str) -> str:
    """cmn-Hans of >>cmn_Hans<<."""
    return token.strip("<>").replace("_", "-")


def _code_of(token: str) -> str:
    """The code of a language token, in two letters if the language has such a code: zh-Hans of >>cmn_Hans<<."""
    first, *rest = _spelling(token).split("-")
    return "-".join([TWO_LETTERS.get(first, first), *rest])


def recorded_languages(options: JsonObject, config: JsonObject) -> tuple[str | None, str | None]:
    """The folder's own source and target; None for one that it does not name."""
    source, target = (
        _recorded(options.get(f"{side}_lang")) or _recorded(config.get(f"{side}_lang")) for side in ("source", "target")
    )
    return source, target


def _recorded(code: object) -> str | None:
    """The folder's own code, in two letters if the language has such a code; None for a language group."""
    if not isinstance(code, str) or len(code.split("_")[0]) > 3 or code in LANGUAGE_GROUPS:
        return None
    return TWO_LETTERS.get(code, code)


def _prefix(given: str | None, target: str, tokens: Sequence[str]) -> str | None:
    if given == NO_PREFIX or (given is None and not tokens):
        return None
    listed = ", ".join(tokens) or NO_PREFIX
    if given is not None:
        token = given if given.startswith(">>") else f">>{given}<<"
        if token not in tokens:
            raise TrainingError(f"The vocabulary holds no language token {token}; it holds {listed}.")
        return token
    matches = matching_tokens(target, tokens)
    if len(matches) == 1:
        return matches[0]
    several = f"several language tokens for {target} ({', '.join(matches)})" if matches else "several target languages"
    raise TokenNeeded(
        f"This model has {several}: give another --target or a --prefix, or --prefix {NO_PREFIX} to leave the choice"
        f" to each text; its language tokens are {listed}."
    )


def matching_tokens(code: str, tokens: Sequence[str]) -> list[str]:
    """The language tokens of a language: spelt the same, in three letters, or with any script or region."""
    first, *rest = re.split("[-_]", code.lower())
    names = [first, *THREE_LETTERS.get(first, ()), *([TWO_LETTERS[first]] if first in TWO_LETTERS else [])]
    plain = {token: token.strip("<>").lower().replace("-", "_") for token in tokens}
    for name in names:
        if exact := [token for token, spelt in plain.items() if spelt == "_".join([name, *rest])]:
            return exact
    return [] if rest else [token for token, spelt in plain.items() if spelt.split("_")[0] in names]
