"""Errors as clients of Google's Translation API v2 read them, and the route class that answers with them."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import BaseModel

from app.access.authorization import KeyMissing, KeyWrong
from app.api.errors import ErrorAnswer, Statuses
from app.api.field_types import doc
from app.api.route import ApiRoute
from app.errors import InvalidRequest, TextTooLong

_STATUS_NAMES = {
    400: ("INVALID_ARGUMENT", "invalid"),
    401: ("UNAUTHENTICATED", "authError"),
    403: ("PERMISSION_DENIED", "forbidden"),
    404: ("NOT_FOUND", "notFound"),
    429: ("RESOURCE_EXHAUSTED", "rateLimitExceeded"),
    500: ("INTERNAL", "backendError"),
    503: ("UNAVAILABLE", "backendError"),
    504: ("DEADLINE_EXCEEDED", "backendError"),
}


class GoogleFault(BaseModel):
    """What is wrong."""

    code: int = doc("The status.", 400)
    message: str = doc(
        "One sentence: what is wrong, where the limit is, and the way out.",
        "There is no model for de → fr here. Loaded pairs: de → en, en → es.",
    )
    errors: list[dict[str, object]] = doc(
        "The same once more, as clients of version 2 read it.",
        [{"message": "There is no model into fr here.", "domain": "global", "reason": "invalid"}],
    )
    status: str = doc("Google's name of the status.", "INVALID_ARGUMENT")


class GoogleError(BaseModel):
    """The body of every error of this family."""

    error: GoogleFault = doc(
        "The status, and what is wrong.", {"code": 400, "message": "No.", "errors": [], "status": "INVALID_ARGUMENT"}
    )

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> Self:
        name, reason = _STATUS_NAMES.get(status, _STATUS_NAMES[500 if status >= 500 else 400])
        again: dict[str, object] = {"message": error.error, "domain": "global", "reason": reason}
        return cls(error=GoogleFault(code=status, message=error.error, errors=[again], status=name))


class GoogleRoute(ApiRoute):
    """JSON, a form or a query, with `q` as often as there are texts. Google answers an invalid key with 400."""

    statuses: ClassVar[Statuses] = {InvalidRequest: 400, TextTooLong: 400, KeyMissing: 403, KeyWrong: 400}
    error_schema = GoogleError
    takes_forms = True
    repeated_fields = frozenset({"q"})
    key_fields: ClassVar[tuple[str, ...]] = ("key",)
