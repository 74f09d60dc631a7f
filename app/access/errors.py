"""Every way to be refused at the gate; `app.api.errors` maps them to statuses."""

from __future__ import annotations

from app.engine.errors import EngineError


class KeyMissing(EngineError):
    code = "key_missing"


class KeyWrong(EngineError):
    code = "key_wrong"


class ScopeMissing(EngineError):
    """The key is known, and not for this."""

    code = "scope_missing"


class UsedUp(EngineError):
    """Everything that there is for now; more comes in `retry_after_s`."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateLimited(UsedUp):
    code = "rate_limited"


class QuotaExceeded(UsedUp):
    code = "quota_exceeded"
