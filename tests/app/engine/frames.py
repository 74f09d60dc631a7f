"""Messages as they cross between processes."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.protocol import messages as m
from models.child_process import frame


def framed(messages: Sequence[m.ToDevice | m.FromDevice]) -> bytes:
    return frame(messages)
