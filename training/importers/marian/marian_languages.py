"""The language pair of a Marian checkpoint, and the target-language token of a multilingual one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from models.language_names import code_problem
from training.config.corpus_languages import LANGUAGE_GROUPS, THREE_LETTERS, TWO_LETTERS
from training.errors import TrainingError
from training.importers.marian.hub_folder import JsonObject
from training.importers.marian.weight_conversion import RECORD

# "* source languages: fr,fr_BE", "* target language(s): cmn_Hans cmn_Hant", "- Source Language(s): deu eng"
CARD_LINE = re.compile(r"[\s*-]*(source|target) languages?(?:\(s\))?\W*:\W*(.+)", re.IGNORECASE)
CARD_CODE = re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,4})*")  # and no name of a language
SEVERAL = re.compile(r"[a-z]{2,3}(\+[a-z]{2,3})+|[a-z]{2,3}(_[a-z]{3})+")  # and no language with a region, as pt_br is
MOST_PAIRS = 10_000  # of an import that names no languages: GET /languages lists them all
NO_PREFIX = "none"


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
        if problem := code_problem(code):
            raise TrainingError(f"--{side} {problem}" + "." * (not problem.endswith("?")))
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
    card: str = "",
) -> tuple[Languages, ...]:
    """Arguments as of `choose_languages`; source and target may name several languages with commas between, and a
    target "all" stands for those of all tokens. Without a choice, an export of ours has the pairs of its model, and
    another model all pairs of the languages that tokenizer_config.json or the card (card: its text) name."""
    if source is target is prefix is None and (exported := _exported_pairs(config, tokens)):
        return exported
    targets: Sequence[str | None] = target.split(",") if target else [None]
    if target == ALL and not tokens:
        raise TrainingError("--target all is for models with language tokens, and this vocabulary has none: name one.")
    if prefix is not None and (target == ALL or len(targets) > 1):
        raise TrainingError("--prefix is the token of one target: leave it out, or give one --target.")
    recorded = recorded_languages(options, config)
    sources = source.split(",") if source else _source_codes(recorded[0], _listed(options, config), card)
    chosen = tokens if target == ALL else () if target or prefix else _offered_tokens(recorded[1], tokens, card)
    if chosen:
        tokens_of = _codes_of(chosen)
        origin = [choose_languages(each, "en", NO_PREFIX, options, config, tokens).source for each in sources]
        if len(origin) * len(tokens_of) > MOST_PAIRS and not (source and target):
            raise TrainingError(
                f"This model reads {len(origin):,} languages and writes {len(tokens_of):,}, too many pairs to serve all"
                " of them: name those that you need, such as --source de,en --target es,fr."
            )
        found = tuple(Languages(each, code, token) for each in origin for code, token in tokens_of.items())
    else:
        if target is None and not recorded[1] and len(written := card_languages(card)[1]) == 1:
            targets = [_code_of(written[0])]
        found = tuple(
            choose_languages(each, code, prefix, options, config, tokens) for each in sources for code in targets
        )
    pairs = tuple(dict.fromkeys(pair for pair in found if pair.source != pair.target)) if len(found) > 1 else found
    return pairs or found


def card_languages(card: str) -> tuple[list[str], list[str]]:
    """The source and target languages that an OPUS-MT model card lists, as it spells them: bel, pt_br, cmn_Hans."""
    listed: dict[str, list[str]] = {}
    for line in filter(None, map(CARD_LINE.fullmatch, card.splitlines())):
        codes = [code for code in re.split(r"[\s,]+", line[2]) if CARD_CODE.fullmatch(code)]
        listed.setdefault(line[1].lower(), list(dict.fromkeys(codes)))
    return listed.get("source", []), listed.get("target", [])


def _listed(options: JsonObject, config: JsonObject) -> list[str]:
    """The source languages of a folder that names several in one field: "deu+eng+fra" or "deu_eng_fra"."""
    code = options.get("source_lang") or config.get("source_lang")
    return re.split("[+_]", code) if isinstance(code, str) and SEVERAL.fullmatch(code) else []


def _source_codes(recorded: str | None, listed: Sequence[str], card: str) -> Sequence[str | None]:
    """The folder's own source language or languages, or those of the card, without the regions of a language that is
    listed too."""
    if recorded:
        return [recorded]
    codes = dict.fromkeys(map(_code_of, listed or card_languages(card)[0]))
    bases = [code.split("-")[0] for code in codes]
    return [
        code
        for code, base in zip(codes, bases, strict=True)
        if (len(base) == 3 or base in THREE_LETTERS) and (code == base or base not in codes)
    ] or [None]


def _offered_tokens(recorded: str | None, tokens: Sequence[str], card: str) -> Sequence[str]:
    """The language tokens that a model is served with if no target is chosen: those of the targets on its card, or all;
    () if there is one token for `recorded`, the folder's own target. A vocabulary may hold tokens of languages that no
    training text was in, and the card leaves those out."""
    by_name = {token.strip("<>").lower().replace("-", "_"): token for token in tokens}
    written = [code.lower().replace("-", "_") for code in card_languages(card)[1]]
    listed = list(dict.fromkeys(by_name[name] for name in written if name in by_name))
    if len(listed) > 1:
        return listed
    names = _names(re.split("[-_]", recorded.lower())[0]) if recorded else []
    return () if len([name for name in by_name if name.split("_")[0] in names]) == 1 else tokens


def _codes_of(tokens: Sequence[str]) -> dict[str, str]:
    """Code -> token. Of the tokens of one code (>>zho<<, >>cmn<<) the first in `THREE_LETTERS` has it, and the others
    keep their own spelling. Codes differ in more than case."""
    claims: dict[str, list[str]] = {}
    for token in tokens:
        claims.setdefault(_code_of(token).lower(), []).append(token)
    codes: dict[str, str] = {}
    for token in tokens:
        code = _code_of(token)
        first = min(claims[code.lower()], key=_claim)
        codes.setdefault(code if token == first else _spelling(token), token)
    spelt = {code.lower(): code for code in reversed(codes)}
    return {code: token for code, token in codes.items() if spelt[code.lower()] == code}


def _claim(token: str) -> int:
    """The rank of a token's language among those that share its two-letter code."""
    first = _spelling(token).split("-")[0]
    names = THREE_LETTERS.get(TWO_LETTERS.get(first, first), ())
    return names.index(first) + 1 if first in names else 0


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
    if not isinstance(code, str) or len(re.split("[+_]", code)[0]) > 3 or code in LANGUAGE_GROUPS:
        return None
    if SEVERAL.fullmatch(code):
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


def _names(language: str) -> list[str]:
    """What tokens call a language: the code itself, in three letters, in two."""
    return [language, *THREE_LETTERS.get(language, ()), *([TWO_LETTERS[language]] if language in TWO_LETTERS else [])]


def matching_tokens(code: str, tokens: Sequence[str]) -> list[str]:
    """The language tokens of a language: spelt the same, in three letters, or with any script or region."""
    first, *rest = re.split("[-_]", code.lower())
    names = _names(first)
    plain = {token: token.strip("<>").lower().replace("-", "_") for token in tokens}
    for name in names:
        if exact := [token for token, spelt in plain.items() if spelt == "_".join([name, *rest])]:
            return exact
    return [] if rest else [token for token, spelt in plain.items() if spelt.split("_")[0] in names]
