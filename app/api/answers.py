"""JSON answers, encoded by msgspec: attention answers hold hundreds of thousands of numbers."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response


class JsonAnswer(Response):
    """Compact JSON in UTF-8. Numbers that JSON cannot write (NaN, infinity) become null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)
