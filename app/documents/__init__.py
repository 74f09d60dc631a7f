"""Files of people's programs: what of them is text, and the same file around its translation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from app.engine.errors import InvalidRequest
from app.translation.job import TextFormat

Ask = Callable[[Sequence[str], TextFormat], Awaitable[list[str]]]
SUPPORTED: tuple[str, ...] = (".txt",)


async def translated(extension: str, content: bytes, ask: Ask) -> bytes:
    """The same file in another language. `InvalidRequest` says what of it cannot be read."""
    assert extension in SUPPORTED
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidRequest("The file is not UTF-8; save it as UTF-8 and send it again.", field="file") from None
    (translation,) = await ask([text], "text")
    return translation.encode()
