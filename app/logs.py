"""The format of log lines, as text or JSON, without any text of a user and without control characters, by which a name
could add lines of its own or change what a terminal shows of others (CWE-117). Of an exception, a line has its type and
its traceback, and its message only where the system or this project wrote it: the message of a ValueError, KeyError or
UnicodeError tends to quote the value."""

from __future__ import annotations

import logging
import re
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal

import msgspec

from app.errors import EngineError

Format = Literal["text", "json"]
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_QUOTE_NOTHING = (OSError, MemoryError, RuntimeError, EngineError)
# Control characters (Cc), line and paragraph separators, signs that change the direction of what follows, surrogates
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SILENT = "its message is left out: it may quote a text"


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__(TEXT)

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = None  # another formatter may have cached its own text there
        try:
            return super().format(record)
        finally:
            record.exc_text = None

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return escaped(super().formatMessage(record))

    def formatException(  # noqa: N802
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        return "" if ei[1] is None else format_exception(ei[1])


class JsonFormatter(TextFormatter):
    """One JSON object a line; the `fields` of a record are members of it."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = getattr(record, "fields", {})
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": escaped(record.getMessage()),
            **{name: escaped(value) if isinstance(value, str) else value for name, value in fields.items()},
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["traceback"] = format_exception(record.exc_info[1])
        return msgspec.json.encode(line).decode()


def set_up_logging(level: str, style: Format) -> None:
    """Log to standard error in this form, unless the program that embeds the service has handlers of its own."""
    formatter = JsonFormatter() if style == "json" else TextFormatter()
    root = logging.getLogger()
    ours = [handler for handler in root.handlers if isinstance(handler.formatter, TextFormatter)]
    if not root.handlers:
        ours = [logging.StreamHandler()]
        root.addHandler(ours[0])
    for handler in ours:
        handler.setFormatter(formatter)
    for handler in logging.getLogger("uvicorn").handlers:  # as its own command sets it up
        if type(handler.formatter).__module__ == "uvicorn.logging":
            handler.setFormatter(formatter)
    logging.getLogger("app").setLevel(level.upper())
    # uvicorn's own line of each request has its query string, which may hold texts and keys; ours has neither
    access = logging.getLogger("uvicorn.access")
    access.handlers.clear()
    access.propagate = False


def escaped(text: str) -> str:
    """Control characters as Python writes them in a string: a line of the log is one line of its file."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def format_exception(error: BaseException, seen: frozenset[int] = frozenset()) -> str:
    """As Python prints it, causes first."""
    seen |= {id(error)}
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    parts = [format_exception(before, seen), "\n\n"] if before is not None and id(before) not in seen else []
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    said = str(error) if isinstance(error, _QUOTE_NOTHING) and not isinstance(error, UnicodeError) else _SILENT
    frames = "".join(traceback.format_tb(error.__traceback__))
    inner = [format_exception(each, seen) for each in getattr(error, "exceptions", ()) if id(each) not in seen]
    return "".join([*parts, frames, f"{name}: {escaped(said)}", *(f"\n\n{each}" for each in inner)])
