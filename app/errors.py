"""What can go wrong between a request and its answer: a class for each code, with its row in brackets. An error that
belongs to one part of the service is defined there. Every message is one sentence for a person: the thing, the limit,
the way out."""

from __future__ import annotations

from collections.abc import Iterator


class EngineError(Exception):
    """Base of all domain errors; the message is for people, `field` names the input at fault, `reason` says for
    counters which of several causes a code had.

    code: stable. status: of the HTTP answer, if the protocol has no other. reasons: all that a code is counted by, if
    it has several causes."""

    code = "engine_error"
    status = 500
    reasons: tuple[str, ...] = ()
    was_sent = False  # set when it ended a request that had reached a device: that failed, and was not refused

    def __init_subclass__(
        cls, code: str | None = None, status: int | None = None, reasons: tuple[str, ...] | None = None
    ) -> None:
        given = {"code": code, "status": status, "reasons": reasons or ((code,) if code else None)}
        for name, value in given.items():
            if value is not None:
                setattr(cls, name, value)

    def __init__(self, message: str, *, field: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.reason = reason or self.code


class InvalidRequest(EngineError, code="invalid_request", status=422):
    """The request cannot be answered as it stands; `field` names the input."""


class TextTooLong(InvalidRequest, code="text_too_long", status=422):  # where other invalid input is 400, too
    """More tokens than the model takes, or characters than the service; the message names both."""


class UnknownCharacters(InvalidRequest, code="unknown_characters"):
    """A character model has no such character."""


class AnswerTooLarge(InvalidRequest, code="answer_too_large"):
    """values: the numbers of the answer. suggest: fields with which it would fit; None: a shorter text would."""

    def __init__(
        self, message: str, *, values: int, limit: int, suggest: dict[str, object] | None, field: str | None = None
    ) -> None:
        super().__init__(message, field=field)
        self.values, self.limit, self.suggest = values, limit, suggest


class UnknownModel(EngineError, code="unknown_model", status=404):
    """No model of that name, or none of that kind."""


class UnknownGlossary(EngineError, code="unknown_glossary", status=404):
    """No glossary with that id, or none for that pair."""


class ModelConflict(EngineError, code="model_conflict", status=409):
    """A change of a model does not go with what is loaded."""


class CheckpointRefused(EngineError, code="checkpoint_refused", status=422):
    """A folder that cannot be served; what was served before stays."""


class UnknownPair(EngineError, code="unknown_pair", status=400):
    """No translator for that pair of languages."""


class RetryLater(EngineError, status=429):
    """Refused now, and worth another try after `retry_after_s`."""

    def __init__(self, message: str, *, retry_after_s: int, reason: str | None = None) -> None:
        super().__init__(message, reason=reason)
        self.retry_after_s = retry_after_s


class Overloaded(
    RetryLater,
    code="overloaded",
    reasons=(
        *("overloaded_requests", "overloaded_tokens", "overloaded_client", "overloaded_inspections", "queue_age"),
        *("overloaded_uploads", "overloaded_documents", "overloaded_files"),
    ),
):
    """The queue is full."""


class DeadlineExceeded(EngineError, code="deadline_exceeded", status=504):
    """The answer did not come in time."""


class EngineUnavailable(
    EngineError, code="engine_unavailable", status=503, reasons=("engine_unavailable", "loading", "draining")
):
    """No device process can take the request now, or it died on the way; retryable."""


class EngineFailed(EngineError, code="engine_failed", status=500):
    """This request, and it alone, failed inside the engine."""


def error_kinds(base: type[EngineError] = EngineError) -> Iterator[type[EngineError]]:
    """All errors that are defined, the most general first."""
    yield base
    for kind in base.__subclasses__():
        yield from error_kinds(kind)
