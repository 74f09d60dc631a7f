"""What can go wrong between a request and its answer. Domain errors know no HTTP: `app.api.errors` maps them.

EngineError
├── InvalidRequest      the request cannot be answered as it stands (names the field)
│   ├── TextTooLong     more tokens than the model takes, or characters than the service (names both)
│   ├── UnknownCharacters  a character model has no such character
│   └── AnswerTooLarge  more numbers than one answer may hold (says how many, and what would fit)
├── UnknownModel        no model of that name (or none of that kind)
├── UnknownGlossary     no glossary with that id, or none for that pair
├── ModelConflict       what is asked of a model does not go with what is loaded
├── CheckpointRefused   a folder that cannot be served; what was served before stays
├── UnknownPair         no translator for that pair of languages
├── Overloaded          the queue is full; try again in `retry_after_s`
├── DeadlineExceeded    the answer did not come in time
├── EngineUnavailable   no device process can take the request now, or it died on the way (retryable)
└── EngineFailed        this request, and it alone, failed inside the engine

Every message is one sentence for a person: the thing, the limit, the way out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
    code = "invalid_request"


class TextTooLong(InvalidRequest):
    code = "text_too_long"


class UnknownCharacters(InvalidRequest):
    code = "unknown_characters"


class AnswerTooLarge(InvalidRequest):
    """values: the numbers that the answer would hold; limit: the most that it may. suggest: fields of the request with
    which it would fit; None: only a shorter text would."""

    code = "answer_too_large"

    def __init__(
        self, message: str, *, values: int, limit: int, suggest: Mapping[str, Any] | None, field: str | None = None
    ) -> None:
        super().__init__(message, field=field)
        self.values, self.limit, self.suggest = values, limit, suggest


class UnknownModel(EngineError):
    code = "unknown_model"


class UnknownGlossary(EngineError):
    code = "unknown_glossary"


class ModelConflict(EngineError):
    code = "model_conflict"


class CheckpointRefused(EngineError):
    code = "checkpoint_refused"


class UnknownPair(EngineError):
    code = "unknown_pair"


class Overloaded(EngineError):
    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: int, reason: str | None = None) -> None:
        super().__init__(message, reason=reason)
        self.retry_after_s = retry_after_s


class DeadlineExceeded(EngineError):
    code = "deadline_exceeded"


class EngineUnavailable(EngineError):
    code = "engine_unavailable"


class EngineFailed(EngineError):
    code = "engine_failed"
