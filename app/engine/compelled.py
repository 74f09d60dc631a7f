"""What a translation has to begin with and to hold, as tokens that the model can write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.engine.errors import InvalidRequest, UnknownCharacters
from app.engine.intake import listed, target_ids
from models.checkpoint import Checkpoint

ALONE = "\ue000"  # a character that no vocabulary has, and which therefore is a token by itself
BEFORE = ("", "a ", "(", ALONE)  # a text's beginning, the middle of a sentence, and no space before the term
Run = tuple[int, ...]


def prefix_ids(checkpoint: Checkpoint, prefix: str) -> Run:
    """The beginning of a translation; () of white space alone. UnknownCharacters for what could not be shown."""
    if not prefix.strip():
        return ()
    ids, never = target_ids(checkpoint, prefix, "prefix"), never_written(checkpoint)
    if unknown := _parts(checkpoint, prefix, never):
        raise UnknownCharacters(
            f"{checkpoint.name} has no token for {listed(unknown)}: begin the translation without it.", field="prefix"
        )
    return tuple(ids)


def never_written(checkpoint: Checkpoint) -> frozenset[int]:
    """Tokens that decoding never chooses as a part of a text."""
    config, special = checkpoint.config, checkpoint.tokenizers["target"].special
    others = (each for each in (config.eos, special.unknown) if each is not None)
    return frozenset((*config.suppressed, *others))


def required_runs(checkpoint: Checkpoint, terms: Sequence[Sequence[str]]) -> list[list[list[int]]]:
    """Of each term all runs of each of its forms. InvalidRequest names a term of which no form can be written."""
    return [_runs(checkpoint, term) for term in terms]


def _runs(checkpoint: Checkpoint, forms: Sequence[str]) -> list[list[int]]:
    never = never_written(checkpoint)
    found = dict.fromkeys(run for form in forms for run in _written(checkpoint, form.strip()))
    if writable := [list(run) for run in found if never.isdisjoint(run)]:
        return writable
    shown = " or ".join(map(repr, forms[:3])) or "''"
    if not found:
        message = f"The term {shown} has no tokens that {checkpoint.name} writes: leave it out."
        raise InvalidRequest(message, field="glossary")
    unknown = list(dict.fromkeys(part for form in forms for part in _parts(checkpoint, form, never)))
    message = f"{checkpoint.name} cannot write the term {shown}: it has no token for {listed(unknown)}; leave it out."
    raise UnknownCharacters(message, field="glossary")


def _parts(checkpoint: Checkpoint, text: str, never: frozenset[int]) -> list[str]:
    """Of a text, each part whose token is among these, once."""
    pieces = checkpoint.tokenizers["target"].pieces(text)
    return list(dict.fromkeys(text[piece.start : piece.end] for piece in pieces if piece.id in never))


def _written(checkpoint: Checkpoint, form: str) -> Iterator[Run]:
    """The tokens that stand for the form alone, wherever it may stand."""
    writer = checkpoint.tokenizers["target"]
    for before in BEFORE if form else ():
        if ALONE in before and writer.special.unknown is None:
            continue
        pieces = writer.pieces(before + form)
        first = next((i for i, piece in enumerate(pieces) if piece.end > len(before)), len(pieces))
        if first < len(pieces) and pieces[first].start >= len(before):
            yield tuple(piece.id for piece in pieces[first:])
