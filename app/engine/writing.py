"""One text while it is written: tokens in, text out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from app.engine.detokenizing import Detokenizer
from app.engine.errors import EngineFailed
from app.engine.jobs import Usage
from app.engine.messages import Timing
from app.engine.stopping import StopWatch
from models.checkpoint import Checkpoint


class Writing:
    """show: hears the text as it grows; what it hears joins to `text`. Times are seconds since this was made."""

    def __init__(
        self, checkpoint: Checkpoint, stops: Sequence[str] = (), show: Callable[[str], None] | None = None
    ) -> None:
        self.checkpoint, self.stops, self._show = checkpoint, tuple(stops), show
        self.wants_tokens = bool(stops) or show is not None
        self.at_once = bool(stops) and show is None  # what is computed behind a stop string is for nobody
        self._started = time.monotonic()
        self._begin()

    def _begin(self) -> None:
        self.tokens: list[int] = []
        self._parts: list[str] = []
        self._detokenizer = Detokenizer(self.checkpoint.tokenizers["target"])
        self._watch = StopWatch(self.stops)
        self.first_token_s: float | None = None

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def stopped(self) -> bool:
        """A stop string has ended it."""
        return self._watch.stopped

    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def feed(self, tokens: Sequence[int]) -> bool:
        """Whether a stop string is complete now: then nothing more is wanted, and the tokens behind it are left out."""
        if self.first_token_s is None:
            self.first_token_s = self.elapsed_s()
        if not self.stops:
            self.tokens += tokens
            self._say(self._detokenizer.feed(tokens))
            return False
        text = []
        for token in tokens:  # one by one: they are counted up to the one that completes a stop string
            self.tokens.append(token)
            text.append(self._watch.feed(self._detokenizer.feed((token,))))
            if self.stopped:
                break
        self._say("".join(text))
        return self.stopped

    def finish(self, tokens: Sequence[int]) -> None:
        """All tokens of the answer, of which some may have been fed. EngineFailed if it is another answer."""
        if list(tokens[: len(self.tokens)]) != self.tokens:
            raise EngineFailed("The end of this answer does not continue its beginning.")
        if not self.wants_tokens:
            self.tokens, self._parts = list(tokens), [self.checkpoint.decode(tokens)]
            return
        rest = tokens[len(self.tokens) :]
        if rest and self.feed(rest):
            return
        self._say(self._watch.feed(self._detokenizer.finish()) + self._watch.finish())
        if not self.stopped and self.text != self.checkpoint.decode(tokens):
            raise EngineFailed("The parts of this answer do not join to its text.")

    def usage(self, read_tokens: int, timing: Timing | None) -> Usage:
        """What it took, up to now."""
        queued_s = timing.queued_s if timing is not None else None
        return Usage(read_tokens, len(self.tokens), queued_s, self.first_token_s, self.elapsed_s())

    def restart(self) -> bool:
        """Begin again from the first token, unless someone has heard a part already."""
        if self._show is not None and self._parts:
            return False
        self._begin()
        return True

    def _say(self, text: str) -> None:
        if text:
            self._parts.append(text)
            if self._show is not None:
                self._show(text)


def together(usages: Sequence[Usage]) -> Usage:
    """Of one request that wrote several texts after the same prompt."""
    queued = [each.queued_s for each in usages if each.queued_s is not None]
    first = [each.first_token_s for each in usages if each.first_token_s is not None]
    return Usage(
        read_tokens=usages[0].read_tokens,
        new_tokens=sum(each.new_tokens for each in usages),
        queued_s=min(queued, default=None),
        first_token_s=min(first, default=None),
        total_s=max(each.total_s for each in usages),
    )
