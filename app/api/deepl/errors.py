"""Errors as DeepL's clients read them, and the route class that answers with them."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import BaseModel

from app.access.authorization import KeyMissing, QuotaExceeded
from app.api.errors import ErrorAnswer, Statuses
from app.api.field_types import doc
from app.api.route import ApiRoute
from app.errors import InvalidRequest, TextTooLong


class DeepLError(BaseModel):
    """The body of every error of this family."""

    message: str = doc(
        "One sentence: what is wrong, where the limit is, and the way out.",
        "There is no model for DE → FR here. Loaded pairs: de → en, en → es.",
    )

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> Self:
        """DeepL's clients show the message of 400 alone, and know any other error by its status."""
        return cls(message=error.error)


class DeepLRoute(ApiRoute):
    """JSON or a form. DeepL's clients retry 429 and 5xx up to five times, so that a lasting error is 4xx: 403 for a
    missing or wrong key, 456 for a used-up quota."""

    statuses: ClassVar[Statuses] = {InvalidRequest: 400, TextTooLong: 400, KeyMissing: 403, QuotaExceeded: 456}
    error_schema = DeepLError
    takes_forms = True
    key_fields: ClassVar[tuple[str, ...]] = ("auth_key",)
    repeated_fields = frozenset(
        {"text", "custom_instructions", "glossary_ids", "splitting_tags", "non_splitting_tags", "ignore_tags"}
    )
