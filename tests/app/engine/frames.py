"""Messages as they cross between processes."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.protocol import messages as m


def framed(messages: Sequence[m.ToDevice | m.FromDevice]) -> bytes:
    return m.frame(messages)
