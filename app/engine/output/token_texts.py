"""Which part of a text each token added: tokens come one by one, text comes when it is certain, both leave together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.engine.output.text_stream import WrittenToken

Likely = tuple[tuple[int, str, float], ...]
Ranked = Sequence[tuple[int, float]]


class TokenTexts:
    """The tokens that `release`, `cut` and `end` return have texts that join to the text that is certain, but for the
    beginning of a token's text whose end is not certain yet: a token leaves whole, and once."""

    def __init__(self, text_of: Callable[[int], str] = str) -> None:
        self._text_of = text_of  # of a token by itself, among the likeliest
        self._open: deque[tuple[int, float, Likely]] = deque()  # tokens whose text may still change
        self._waiting: deque[WrittenToken] = deque()  # their text may still be taken back
        self._silent: list[WrittenToken] = []  # without text of their own, before one that has some
        self._certain = 0  # characters of the waiting ones that nothing takes back

    def add(self, token: int, log_probability: float, text: str, held: int, top: Ranked = ()) -> None:
        """text: what was read when this token came; it stands for all tokens but the last `held`. top: the likeliest
        tokens at its place."""
        likely = tuple((each, self._text_of(each), nats) for each, nats in top)
        self._open.append((token, log_probability, likely))
        self._settle(len(self._open) - held, text)

    def release(self, text: str) -> list[WrittenToken]:
        """The tokens that can leave now that this text is certain too."""
        self._certain += len(text)
        leaving: list[WrittenToken] = []
        while self._waiting and len(self._waiting[0].text) <= self._certain:
            token = self._waiting.popleft()
            self._certain -= len(token.text)
            self._silent.append(token)
            if token.text:
                leaving += self._silent
                self._silent = []
        return leaving

    def cut(self) -> list[WrittenToken]:
        """The text ends with what is certain: of the token that it ends within, the part before the end."""
        if not self._certain:
            return []
        token = self._waiting[0]
        return [*self._silent, replace(token, text=token.text[: self._certain])]

    def settle(self, text: str) -> None:
        """The last tokens have come, and stand for this text."""
        self._settle(len(self._open), text)

    def end(self) -> list[WrittenToken]:
        """What is left when all text is certain: tokens that brought none."""
        return self._silent

    def _settle(self, count: int, text: str) -> None:
        for left in reversed(range(count)):
            token, log_probability, top = self._open.popleft()
            self._waiting.append(WrittenToken(token, "" if left else text, log_probability, top))
