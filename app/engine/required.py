"""Terms that a translation has to hold, as the runs of tokens that a model can write them with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.engine.errors import InvalidRequest, UnknownCharacters
from app.engine.intake import listed
from models.checkpoint import Checkpoint

ALONE = "\ue000"  # a character that no vocabulary has, and which therefore is a token by itself
BEFORE = ("", "a ", "(", ALONE)  # a text's beginning, the middle of a sentence, and no space before the term
Run = tuple[int, ...]


def required_runs(checkpoint: Checkpoint, terms: Sequence[Sequence[str]]) -> list[list[list[int]]]:
    """Of each term all runs of each of its forms. InvalidRequest names a term of which no form can be written."""
    return [_runs(checkpoint, term) for term in terms]


def _runs(checkpoint: Checkpoint, forms: Sequence[str]) -> list[list[int]]:
    never = {*checkpoint.config.suppressed, checkpoint.tokenizers["target"].special.unknown}
    if checkpoint.config.eos is not None:
        never.add(checkpoint.config.eos)
    found = dict.fromkeys(run for form in forms for run in _written(checkpoint, form.strip()))
    writable = [list(run) for run in found if never.isdisjoint(run)]
    if writable:
        return writable
    shown = _shown(forms)
    if found:
        unknown = [part for form in forms for part in _unwritable(checkpoint, form, never)]
        raise UnknownCharacters(
            f"{checkpoint.name} cannot write the term {shown}, for it has no token for"
            f" {listed(list(dict.fromkeys(unknown)))}: leave the term out or spell it otherwise.",
            field="glossary",
        )
    raise InvalidRequest(f"The term {shown} has no tokens that {checkpoint.name} writes: leave it out.", field="glossary")


def _shown(forms: Sequence[str]) -> str:
    return " or ".join(repr(form) for form in forms[:3]) or "''"


def _unwritable(checkpoint: Checkpoint, form: str, never: set[int | None]) -> Iterator[str]:
    for piece in checkpoint.tokenizers["target"].pieces(form):
        if piece.id in never:
            yield form[piece.start : piece.end]


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
