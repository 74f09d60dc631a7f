"""What can go wrong between a request and its answer. Domain errors know no HTTP: `app.api.errors` maps them.

Every message is one sentence for a person: the thing, the limit, the way out.
"""

from __future__ import annotations


class EngineError(Exception):
    """Base of all domain errors; `code` is stable, the message is for people, `field` names the input at fault,
    `reason` says for counters which of several causes a code had."""

    code = "engine_error"
    was_sent = False  # set when it ended a request that had reached a device: that failed, and was not refused

    def __init__(self, message: str, *, field: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.reason = reason or self.code


class InvalidRequest(EngineError):
    """The request cannot be answered as it stands; `field` names the input."""

    code = "invalid_request"


class TextTooLong(InvalidRequest):
    """More tokens than the model takes, or characters than the service; the message names both."""

    code = "text_too_long"


class UnknownCharacters(InvalidRequest):
    """A character model has no such character."""

    code = "unknown_characters"


class AnswerTooLarge(InvalidRequest):
    """values: the numbers that the answer would hold; limit: the most that it may. suggest: fields of the request with
    which it would fit; None: only a shorter text would."""

    code = "answer_too_large"

    def __init__(
        self, message: str, *, values: int, limit: int, suggest: dict[str, object] | None, field: str | None = None
    ) -> None:
        super().__init__(message, field=field)
        self.values, self.limit, self.suggest = values, limit, suggest


class UnknownModel(EngineError):
    """No model of that name, or none of that kind."""

    code = "unknown_model"


class UnknownGlossary(EngineError):
    """No glossary with that id, or none for that pair."""

    code = "unknown_glossary"


class ModelConflict(EngineError):
    """A change of a model does not go with what is loaded."""

    code = "model_conflict"


class CheckpointRefused(EngineError):
    """A folder that cannot be served; what was served before stays."""

    code = "checkpoint_refused"


class UnknownPair(EngineError):
    """No translator for that pair of languages."""

    code = "unknown_pair"


class Overloaded(EngineError):
    """The queue is full; try again in `retry_after_s`."""

    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: int, reason: str | None = None) -> None:
        super().__init__(message, reason=reason)
        self.retry_after_s = retry_after_s


class DeadlineExceeded(EngineError):
    """The answer did not come in time."""

    code = "deadline_exceeded"


class EngineUnavailable(EngineError):
    """No device process can take the request now, or it died on the way; retryable."""

    code = "engine_unavailable"


class EngineFailed(EngineError):
    """This request, and it alone, failed inside the engine."""

    code = "engine_failed"
