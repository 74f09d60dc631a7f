"""Who may come in: bounded requests and bounded work, decided before anything is sent to a device."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from app.engine.errors import InvalidRequest, Overloaded

WINDOW_S = 30.0  # throughput is measured over so long


class Admission:
    """Counts requests in flight and the tokens that a device has to read for them (source or prompt)."""

    def __init__(self, max_requests: int, max_tokens: int) -> None:
        self.max_requests, self.max_tokens = max_requests, max_tokens
        self.requests = self.tokens = 0
        self._finished: deque[tuple[float, int]] = deque()

    @contextmanager
    def admitted(self, requests: int, tokens: int) -> Iterator[None]:
        """Room for so many requests together, or Overloaded; InvalidRequest if they could never fit."""
        if requests > self.max_requests or tokens > self.max_tokens:
            raise InvalidRequest(
                f"This asks for {requests} sequences of {tokens:,} tokens at once; the service takes"
                f" {self.max_requests} and {self.max_tokens:,}. Send it in parts."
            )
        if self.requests + requests > self.max_requests or self.tokens + tokens > self.max_tokens:
            wait = self.retry_after_s()
            raise Overloaded(
                f"Too many requests right now; try again in {wait} second{'s' * (wait != 1)}.",
                retry_after_s=wait,
                reason=f"overloaded_{'requests' if self.requests + requests > self.max_requests else 'tokens'}",
            )
        self.requests += requests
        self.tokens += tokens
        try:
            yield
        finally:
            self.requests -= requests
            self.tokens -= tokens
            self._finished.append((time.monotonic(), tokens))
            self._forget()

    def _forget(self) -> None:
        """Here, and not only when someone is sent away: a service that never is full would remember every request."""
        while self._finished and self._finished[0][0] < time.monotonic() - WINDOW_S:
            self._finished.popleft()

    def retry_after_s(self) -> int:
        """How long the work in flight will take at the throughput of the last half minute; 1 to 60."""
        self._forget()
        if not self._finished:
            return 1
        since = time.monotonic() - self._finished[0][0]
        rate = sum(tokens for _, tokens in self._finished) / max(since, 1.0)
        return max(1, min(60, math.ceil(self.tokens / max(rate, 1e-9))))
