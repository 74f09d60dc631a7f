"""One text while it is generated: tokens in, text out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import repeat

from app.engine.errors import EngineFailed
from app.engine.interface import Usage
from app.engine.output.detokenizer import Detokenizer
from app.engine.output.stop_strings import StopStringMatcher
from app.engine.output.text_stream import WrittenToken
from app.engine.output.token_texts import TokenTexts
from app.engine.output.token_views import text_after_others
from app.engine.protocol.messages import Timing
from models.checkpoint import Checkpoint
from models.decoding.hypothesis import TopTokens

NOT_FINITE = "gives a token a probability that is no number, so its weights are broken; load a sound checkpoint of it."
ShowTokens = Callable[[str, Sequence[WrittenToken]], None]


class OutputProcessor:
    """show: hears the text as it grows; what it hears joins to `text`. logprobs: the text comes with its tokens, whose
    texts join to it, and not before a token is whole; `written` has them all. given: tokens that the text begins with
    and that nobody needs to write; not with stops or logprobs. Times are seconds since this was made."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        stops: Sequence[str] = (),
        show: ShowTokens | None = None,
        *,
        logprobs: bool = False,
        given: Sequence[int] = (),
    ) -> None:
        assert not (given and (stops or logprobs)), "what is given would be searched for stops, and has no probability"
        self.checkpoint, self.stops, self._show, self.logprobs = checkpoint, tuple(stops), show, logprobs
        self.given = tuple(given)
        self.wants_tokens = bool(stops) or show is not None
        self.at_once = bool(stops) and show is None  # what is computed behind a stop string is for nobody
        self._started = time.monotonic()
        self._begin()

    def _begin(self) -> None:
        self.tokens: list[int] = []
        self._parts: list[str] = []
        self._detokenizer = Detokenizer(self.checkpoint.tokenizers["target"])
        self._watch = StopStringMatcher(self.stops)
        writer = self.checkpoint.tokenizers["target"]
        self._texts = TokenTexts(cache(lambda token: text_after_others(writer, token))) if self.logprobs else None
        self.written: list[WrittenToken] = []
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

    def feed(
        self, tokens: Sequence[int], log_probabilities: Sequence[float] = (), top: Sequence[TopTokens] = ()
    ) -> bool:
        """Whether a stop string is complete now: then nothing more is wanted, and the tokens behind it are left out.
        log_probabilities: one for each token, where they are wanted; ValueError if one is missing, EngineFailed if one
        is not finite. top: likewise, or nothing."""
        if self.given and not self.tokens:
            self.tokens += self.given
            self._say(self._detokenizer.feed(self.given))
        if self.first_token_s is None and self.wants_tokens:
            self.first_token_s = self.elapsed_s()
        if self._texts is not None:
            return self._feed_each(self._texts, tokens, log_probabilities, top)
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

    def _feed_each(
        self,
        texts: TokenTexts,
        tokens: Sequence[int],
        log_probabilities: Sequence[float],
        top: Sequence[TopTokens],
    ) -> bool:
        told: list[WrittenToken] = []
        for token, nats, likely in zip(tokens, log_probabilities, top or repeat((), len(tokens)), strict=True):
            if not math.isfinite(nats):  # JSON would show null
                raise EngineFailed(f"{self.checkpoint.name} {NOT_FINITE}")
            self.tokens.append(token)
            text = self._detokenizer.feed((token,))
            texts.add(token, nats, text, self._detokenizer.held, likely)
            told += texts.release(self._watch.feed(text))
            if self.stopped:
                told += texts.cut()
                break
        self._tell(told)
        return self.stopped

    def finish(
        self, tokens: Sequence[int], log_probabilities: Sequence[float] = (), top: Sequence[TopTokens] = ()
    ) -> None:
        """All tokens of the answer, but those that were given, of which some may have been fed. EngineFailed if it is
        another answer."""
        tokens = [*self.given, *tokens]
        if list(tokens[: len(self.tokens)]) != self.tokens:
            raise EngineFailed("The end of this answer does not continue its beginning.")
        if self.logprobs and len(log_probabilities) != len(tokens):
            raise EngineFailed("The device did not say how probable each token was.")
        if not self.wants_tokens and not self.logprobs:
            self.tokens, self._parts = list(tokens), [self.checkpoint.decode(tokens)]
            return
        done = len(self.tokens) or len(self.given)
        if (tokens[done:] or not self.tokens) and self.feed(tokens[done:], log_probabilities[done:], top[done:]):
            return
        left = self._detokenizer.finish()
        if self._texts is not None:
            self._finish_each(self._texts, left)
        else:
            self._say(self._watch.feed(left) + self._watch.finish())
        if not self.stopped and self.text != self.checkpoint.decode(tokens):
            raise EngineFailed("The parts of this answer do not join to its text.")

    def _finish_each(self, texts: TokenTexts, left: str) -> None:
        texts.settle(left)
        told = texts.release(self._watch.feed(left) + self._watch.finish())
        self._tell([*told, *(texts.cut() if self.stopped else texts.end())])

    def usage(self, read_tokens: int, timing: Timing | None) -> Usage:
        """What it took, up to now."""
        queued_s = timing.queued_s if timing is not None else None
        new_tokens = max(0, len(self.tokens) - len(self.given))
        return Usage(read_tokens, new_tokens, queued_s, self.first_token_s, self.elapsed_s())

    def restart(self) -> bool:
        """Begin again from the first token, unless someone has heard a part already."""
        if self._show is not None and self._parts:
            return False
        self._begin()
        return True

    def _tell(self, tokens: Sequence[WrittenToken]) -> None:
        self.written += tokens
        self._say("".join(each.text for each in tokens), tokens)

    def _say(self, text: str, tokens: Sequence[WrittenToken] = ()) -> None:
        if text or tokens:
            self._parts.append(text)
            if self._show is not None:
                self._show(text, tokens)


def combined_usage(usages: Sequence[Usage]) -> Usage:
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
