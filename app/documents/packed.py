"""Zipped XML, as word processors write it: how far it may unpack, and what no parser gets to see."""

from __future__ import annotations

import io
import zipfile

from app.engine.errors import InvalidRequest

MOST_BYTES = 100_000_000  # unpacked
_MOST_FILES = 5000
_MOST_RATIO = 100  # unpacked to packed, of more than
_SMALL = 10_000_000  # bytes


def check(content: bytes) -> None:
    """Raises InvalidRequest for a package that unpacks too far, or whose XML declares entities. Its sizes are what it
    says itself: nothing reads on behind them."""
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        entries = package.infolist()
        size = sum(each.file_size for each in entries)
        if size > MOST_BYTES or (size > _SMALL and size > _MOST_RATIO * len(content)):
            raise InvalidRequest(
                f"The file unpacks to {size:,} bytes; it may be {MOST_BYTES:,}, and {_MOST_RATIO} times its own size."
            )
        if len(entries) > _MOST_FILES:
            raise InvalidRequest(f"The file is a package of {len(entries):,} files; it may be {_MOST_FILES:,}.")
        for each in entries:
            if each.filename.endswith((".xml", ".rels")) and _declares(package.read(each)):
                raise InvalidRequest("The file declares XML entities, which no document of its kind needs.")


def _declares(xml: bytes) -> bool:
    """In UTF-8 or in UTF-16, whose every second byte is zero here."""
    return b"<!DOCTYPE" in xml.replace(b"\0", b"")
