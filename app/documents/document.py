"""What every kind of file is read as."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from app.engine.errors import InvalidRequest
from app.translation.job import TextFormat


class Document(Protocol):
    """texts: what is to be translated, in order; format: what they are."""

    @property
    def texts(self) -> Sequence[str]: ...

    @property
    def format(self) -> TextFormat: ...

    def written(self, translations: Sequence[str]) -> bytes:
        """The file with these in their places; called once, with one for each of `texts`."""
        ...


@contextmanager
def readable(kind: str) -> Iterator[None]:
    """What a library says to a broken file can be any exception: here all of them are the file's fault."""
    try:
        yield
    except InvalidRequest:
        raise
    except Exception as failure:
        raise InvalidRequest(
            f"The file cannot be read as {kind}; open it in its program and save it again."
        ) from failure
