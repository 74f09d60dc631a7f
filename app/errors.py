"""What can go wrong between a request and its answer. Domain errors know no HTTP: `app.api.errors` maps them. Every
message is one sentence for a person: the thing, the limit, the way out."""

from __future__ import annotations


class EngineError(Exception):
    """Base of all domain errors; `code` is stable, the message is for people, `field` names the input at fault,
    `reason` says for counters which of several causes a code had."""

    code = "engine_error"
    was_sent = False  # set when it ended a request that had reached a device: that failed, and was not refused

    def __init_subclass__(cls, code: str | None = None) -> None:
        cls.code = code or cls.code

    def __init__(self, message: str, *, field: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.reason = reason or self.code


class InvalidRequest(EngineError, code="invalid_request"):
    """The request cannot be answered as it stands; `field` names the input."""


class TextTooLong(InvalidRequest, code="text_too_long"):
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


class UnknownModel(EngineError, code="unknown_model"):
    """No model of that name, or none of that kind."""


class UnknownGlossary(EngineError, code="unknown_glossary"):
    """No glossary with that id, or none for that pair."""


class ModelConflict(EngineError, code="model_conflict"):
    """A change of a model does not go with what is loaded."""


class CheckpointRefused(EngineError, code="checkpoint_refused"):
    """A folder that cannot be served; what was served before stays."""


class UnknownPair(EngineError, code="unknown_pair"):
    """No translator for that pair of languages."""


class RetryLater(EngineError):
    """Refused now, and worth another try after `retry_after_s`."""

    def __init__(self, message: str, *, retry_after_s: int, reason: str | None = None) -> None:
        super().__init__(message, reason=reason)
        self.retry_after_s = retry_after_s


class Overloaded(RetryLater, code="overloaded"):
    """The queue is full."""


class DeadlineExceeded(EngineError, code="deadline_exceeded"):
    """The answer did not come in time."""


class EngineUnavailable(EngineError, code="engine_unavailable"):
    """No device process can take the request now, or it died on the way; retryable."""


class EngineFailed(EngineError, code="engine_failed"):
    """This request, and it alone, failed inside the engine."""
