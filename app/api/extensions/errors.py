"""Errors as translators in browsers read them, and the route classes that answer with them."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import BaseModel

from app.api.deepl.errors import DeepLRoute
from app.api.errors import ErrorAnswer, Statuses
from app.api.field_types import doc
from app.api.route import ApiRoute
from app.errors import InvalidRequest, TextTooLong


class DeepLXError(BaseModel):
    """The body of every error of /deeplx."""

    code: int = doc("The status.", 400)
    message: str = doc(
        "One sentence: what is wrong, where the limit is, and the way out.",
        "There is no model for DE → FR here. Loaded pairs: de → en, en → es.",
    )

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> Self:
        return cls(code=status, message=error.error)


class ExtensionRoute(ApiRoute):
    """JSON, with the key in a header or as ?token=. Errors are ours: the extensions show the body as it is."""

    statuses: ClassVar[Statuses] = {InvalidRequest: 400, TextTooLong: 400}
    key_fields: ClassVar[tuple[str, ...]] = ("token",)


class DeepLXRoute(ExtensionRoute):
    """A route of DeepLX's clients."""

    error_schema = DeepLXError


class DeepLTokenRoute(DeepLRoute):
    """DeepL's form for extensions, which cannot always set a header."""

    key_fields = ("auth_key", "token")
