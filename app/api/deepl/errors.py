"""Errors as DeepL's clients read them, and the route class that answers with them."""

from __future__ import annotations

from typing import Any

from app.api.route import ApiRoute


def deepl_error(status: int, body: dict[str, Any]) -> dict[str, Any]:
    """Our sentence, where DeepL's clients show it. They know an error by its status alone."""
    return {"message": body["error"]}


class DeepLRoute(ApiRoute):
    """JSON or a form. Its clients try again on 429 and on 5xx, up to five times: what will not change is 4xx. 400 is
    the one of which they show the message; a key that is missing or wrong is 403, a quota that is used up 456."""

    invalid_status = 400
    too_long_status = 400
    missing_key_status = 403
    wrong_key_status = 403
    quota_status = 456
    takes_forms = True
    text_fields = ("text",)
    key_fields: tuple[str, ...] = ("auth_key",)
    repeated_fields = frozenset(
        {"text", "custom_instructions", "glossary_ids", "splitting_tags", "non_splitting_tags", "ignore_tags"}
    )
    error_form = staticmethod(deepl_error)
