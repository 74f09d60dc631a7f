"""Incremental output of one text: detokenization, stop strings, the text of each token, and repetition detection. The
reference is the tokenizer's `decode` of all tokens. The detokenizer decodes each token once, with the context that its
text depends on: whether the text has begun (a leading space is dropped), the bytes of an incomplete character and, for
tokenizers that trim, white space that may turn out to be trailing."""

from __future__ import annotations

import codecs
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from weakref import WeakKeyDictionary

import numpy as np

from app.engine.interface import Usage
from app.engine.output.text_stream import WrittenToken
from app.engine.protocol.messages import Timing
from app.errors import EngineFailed
from models.checkpoint import Checkpoint
from models.decoding.options import TopTokens
from models.tokenizer import Tokenizer

BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"
MOST_OPEN_BYTES = 3  # a UTF-8 character has at most four bytes


class Detokenizer:
    """The texts that `feed` and `finish` return join to `tokenizer.decode` of all tokens fed."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = tokenizer.special.ids
        self._held: list[int] = []  # byte tokens of an incomplete character: at most 3
        self._silent: dict[int, None] = {}  # the distinct tokens before the first one that has text
        self._anchor: tuple[int, int] | None = None  # once the text has begun: a token with text, and its length
        # for tokenizers that trim: white space after the text returned so far; None: nothing was returned yet
        self._blank: str | None = None

    @property
    def held(self) -> int:
        """How many of the last tokens have no text yet, because they may begin a character."""
        return len(self._held)

    def feed(self, tokens: Iterable[int]) -> str:
        """The text that has become certain; "" while the next token may still change it."""
        settled = self._held + [token for token in tokens if token not in self._special]
        self._held = []
        if open_bytes := self._open_bytes(settled):
            self._held = settled[-open_bytes:]
            del settled[-open_bytes:]
        return self._trimmed(self._decode(settled))

    def finish(self) -> str:
        """The remaining text: an incomplete character."""
        rest, self._held = self._held, []
        return self._trimmed(self._decode(rest))

    def _trimmed(self, text: str) -> str:
        """Drops leading white space, and holds white space back until another word follows."""
        if not self._tokenizer.trims:
            return text
        text = text.lstrip() if self._blank is None else self._blank + text
        shown = text.rstrip()
        if shown or self._blank is not None:
            self._blank = text[len(shown) :]
        return shown

    def _open_bytes(self, tokens: list[int]) -> int:
        """How many of the last tokens are bytes of an incomplete character."""
        tail = b""
        for token in reversed(tokens[-MOST_OPEN_BYTES:]):
            match = BYTE_PIECE.fullmatch(self._tokenizer.piece(token))
            if match is None:
                break
            tail = bytes([int(match[1], 16)]) + tail
        if not tail:
            return 0
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(tail)
        return len(decoder.getstate()[0])

    def _decode(self, tokens: list[int]) -> str:
        if not tokens:
            return ""
        if self._anchor is not None:
            anchor, length = self._anchor
            return self._tokenizer.untrimmed([anchor, *tokens])[length:]
        text = self._tokenizer.untrimmed([*self._silent, *tokens])
        if text:
            self._anchor = find_anchor(self._tokenizer)
        else:
            self._silent.update(dict.fromkeys(tokens))
        return text


_anchors: WeakKeyDictionary[Tokenizer, tuple[int, int]] = WeakKeyDictionary()
_texts_after_others: WeakKeyDictionary[Tokenizer, dict[int, str]] = WeakKeyDictionary()


def find_anchor(tokenizer: Tokenizer) -> tuple[int, int]:
    """A token with a complete text of its own, and that text's length: a token after it is not the start of a text."""
    if (anchor := _anchors.get(tokenizer)) is None:
        anchor = _anchors[tokenizer] = _search_anchor(tokenizer)
    return anchor


def _search_anchor(tokenizer: Tokenizer) -> tuple[int, int]:
    for token in reversed(range(tokenizer.size)):
        text = tokenizer.untrimmed([token])
        if text and REPLACEMENT_CHARACTER not in text:
            return token, len(text)
    raise ValueError("No token of this vocabulary stands for a text.")


def text_after_others(tokenizer: Tokenizer, token: int) -> str:
    """A token's text in mid-sentence, with its leading space. The texts of a vocabulary are kept: hundreds of sequences
    with `logprobs` ask for the likeliest tokens of each of their steps."""
    texts = _texts_after_others.setdefault(tokenizer, {})
    if (text := texts.get(token)) is None:
        anchor, length = find_anchor(tokenizer)
        text = tokenizer.untrimmed([anchor, token])[length:]
        if not text or REPLACEMENT_CHARACTER in text:
            text = tokenizer.piece(token)
        texts[token] = text
    return text


class StopStringMatcher:
    """Lets a text through up to the first stop string to be complete, and holds back what may become one. Knuth, Morris
    and Pratt (1977): a character costs the same however long the text and the stop strings are."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = list(zip(stops, map(border_lengths, stops), strict=True))
        self._matched = [0] * len(self._stops)  # how much of each stop string the text ends with
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """The text that is certain to stay and was not before; the stop string and what follows never is."""
        if self.stopped:
            return ""
        if not self._stops:
            return text
        whole = self._held + text
        for end, character in enumerate(text, start=len(self._held) + 1):
            if complete := self._longest_completed(character):
                self.stopped, self._held = True, ""
                return whole[: end - complete]
        certain = len(whole) - max(self._matched)
        self._held = whole[certain:]
        return whole[:certain]

    def _longest_completed(self, character: str) -> int:
        """Length of the longest stop string that this character completes; 0 for none."""
        complete = 0
        for index, (stop, border) in enumerate(self._stops):
            matched = self._matched[index]
            while matched and stop[matched] != character:
                matched = border[matched - 1]
            matched += stop[matched] == character
            self._matched[index] = matched
            if matched == len(stop):
                complete = max(complete, matched)
        return complete

    def finish(self) -> str:
        """What was held back: no stop string came of it."""
        held, self._held = self._held, ""
        return held


def border_lengths(stop: str) -> list[int]:
    """At each place the length of the longest proper prefix of `stop` that ends there too."""
    lengths, length = [0] * len(stop), 0
    for place in range(1, len(stop)):
        while length and stop[length] != stop[place]:
            length = lengths[length - 1]
        length += stop[length] == stop[place]
        lengths[place] = length
    return lengths


MAX_PERIOD = 30  # tokens of the repeated run
MIN_REPEATS, MIN_TOKENS = 4, 12  # minimum number of repeats, and of tokens in all repeats
MAX_PERIOD_CHARACTERS = 200  # of the repeated part of a source
MAX_RATIO_TO_SOURCE = 2  # a text may repeat itself up to twice as often as its source
TokenIds = Sequence[int]


def is_repetitive(tokens: TokenIds, decode: Callable[[TokenIds], str], source: str, *, at_end: bool = False) -> bool:
    """Whether `tokens` loop and `source` repeats itself less. at_end: only a loop at the end of the text counts."""
    if len(tokens) - len(set(tokens)) < MIN_TOKENS - MIN_TOKENS // MIN_REPEATS:  # too few duplicates for a loop
        return False
    run = repeated_run(tokens, at_end=at_end)
    return bool(run) and most_repeats(decode(run)) > MAX_RATIO_TO_SOURCE * most_repeats(source)


def repeated_run(tokens: TokenIds, *, at_end: bool = False) -> TokenIds:
    """The repeats of a run of at most MAX_PERIOD tokens that occurs at least MIN_REPEATS times in a row, anywhere or at
    the end; () if none. The last repeat may be incomplete."""
    for period in range(1, min(MAX_PERIOD, len(tokens) // MIN_REPEATS) + 1):
        # this many tokens in a row equal the token one period earlier
        alike = max((MIN_REPEATS - 1) * period, MIN_TOKENS - period)
        last = len(tokens) - 1
        for place in [last] if at_end else range(period + alike - 1, len(tokens), alike):  # a loop covers one of these
            start, end = place, place + 1
            while start >= period and tokens[start] == tokens[start - period]:
                start -= 1
            while start < place and end < len(tokens) and tokens[end] == tokens[end - period]:
                end += 1
            if end - start - 1 >= alike:
                return tokens[start + 1 - period : end]
    return ()


def most_repeats(text: str) -> float:
    """The most consecutive repeats of any part of the text, ignoring white space; 1 without repetition, 0 if empty."""
    codes = np.frombuffer("".join(text.split()).casefold().encode("utf-32-le", "surrogatepass"), dtype="<u4")
    most = float(len(codes) > 0)
    for period in range(1, min(MAX_PERIOD_CHARACTERS, len(codes) // 2) + 1):
        if len(codes) / period <= most:
            break
        edges = np.concatenate(([-1], np.flatnonzero(codes[period:] != codes[:-period]), [len(codes) - period]))
        most = max(most, (int(np.diff(edges).max()) - 1 + period) / period)
    return most


class TokenTexts:
    """Assigns text to tokens. The tokens that `release`, `cut` and `end` return join to the certain text, up to a token
    whose end is not certain yet: a token is released whole and once."""

    def __init__(self) -> None:
        self._open: deque[WrittenToken] = deque()  # their text may still change
        self._waiting: deque[WrittenToken] = deque()  # their text may still be removed by a stop string
        self._silent: list[WrittenToken] = []  # without text, released with the next token that has text
        self._certain = 0  # certain characters at the start of _waiting

    def add(self, token: WrittenToken, text: str, held: int) -> None:
        """Adds a token. text: the text that it completed, of all open tokens but the last `held`."""
        self._open.append(token)
        self.settle(text, held)

    def settle(self, text: str, held: int = 0) -> None:
        """Assigns the text to the last of the open tokens except the last `held`."""
        while len(self._open) > held:
            token = self._open.popleft()
            self._waiting.append(replace(token, text=text) if len(self._open) == held else token)

    def release(self, text: str) -> list[WrittenToken]:
        """The tokens that are complete now that `text` is certain too."""
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
        """The last tokens of a text cut by a stop string, with the part of a token before it."""
        if not self._certain:
            return []
        token = self._waiting[0]
        return [*self._silent, replace(token, text=token.text[: self._certain])]

    def end(self) -> list[WrittenToken]:
        """The remaining tokens without text, once all text is certain."""
        return self._silent


NOT_FINITE = "gives a token a probability that is no number, so its weights are broken; load a sound checkpoint of it."
ShowTokens = Callable[[str, Sequence[WrittenToken]], None]


class OutputProcessor:
    """The text of one sequence. show: called with new parts, which join to `text`. logprobs: release only whole tokens,
    also in `written`. given: forced first tokens; not with stops or logprobs. Times: seconds since construction."""

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
        self.at_once = bool(stops) and show is None  # tokens after a stop string are wasted compute
        self._started = time.monotonic()
        self._begin()

    def _begin(self) -> None:
        writer = self.checkpoint.tokenizers["target"]
        self.tokens: list[int] = []
        self.written: list[WrittenToken] = []
        self.first_token_s: float | None = None
        self._parts: list[str] = []
        self._detokenizer, self._matcher = Detokenizer(writer), StopStringMatcher(self.stops)
        self._texts: TokenTexts | None = None
        if self.logprobs:
            self._texts = TokenTexts()
            self._text_of = partial(text_after_others, writer)  # of top tokens

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended the text."""
        return self._matcher.stopped

    def feed(
        self, tokens: Sequence[int], log_probabilities: Sequence[float] = (), top: Sequence[TopTokens] = ()
    ) -> bool:
        """Adds tokens; True if a stop string is now complete, and tokens after it are dropped. log_probabilities: one
        per token with `logprobs`; ValueError if one is missing, EngineFailed if not finite. top: likewise, or empty."""
        if self.given and not self.tokens:
            self.tokens += self.given
            self._say(self._detokenizer.feed(self.given))
        if self.first_token_s is None and self.wants_tokens:
            self.first_token_s = time.monotonic() - self._started
        if not self.stops and self._texts is None:
            self.tokens += tokens
            self._say(self._detokenizer.feed(tokens))
            return False
        said, written, none = "", list[WrittenToken](), repeat((), len(tokens))
        nats = log_probabilities if self.logprobs else repeat(0.0, len(tokens))
        # one by one, to count the tokens up to the stop string
        for token, log_probability, likely in zip(tokens, nats, top or none, strict=True):
            if not math.isfinite(log_probability):  # would be null in JSON
                raise EngineFailed(f"{self.checkpoint.name} {NOT_FINITE}")
            self.tokens.append(token)
            text = self._detokenizer.feed((token,))
            certain = self._matcher.feed(text)
            if self._texts is None:
                said += certain
            else:
                top_texts = tuple((other, self._text_of(other), value) for other, value in likely)
                self._texts.add(WrittenToken(token, "", log_probability, top_texts), text, self._detokenizer.held)
                written += self._texts.release(certain)
            if self.stopped:
                written += self._texts.cut() if self._texts is not None else ()
                break
        self._say(said, written)
        return self.stopped

    def finish(
        self, tokens: Sequence[int], log_probabilities: Sequence[float] = (), top: Sequence[TopTokens] = ()
    ) -> None:
        """Ends the text. tokens: of the answer, without `given`. Raises EngineFailed if others were fed."""
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
        certain = self._matcher.feed(left) + self._matcher.finish()
        if self._texts is None:
            self._say(certain)
        else:
            self._texts.settle(left)
            released = self._texts.release(certain)
            self._say("", [*released, *(self._texts.cut() if self.stopped else self._texts.end())])
        if not self.stopped and self.text != self.checkpoint.decode(tokens):
            raise EngineFailed("The parts of this answer do not join to its text.")

    def usage(self, read_tokens: int, timing: Timing | None) -> Usage:
        queued_s = timing.queued_s if timing is not None else None
        new_tokens = max(0, len(self.tokens) - len(self.given))
        return Usage(read_tokens, new_tokens, queued_s, self.first_token_s, time.monotonic() - self._started)

    def restart(self) -> bool:
        """Starts over from the first token; False if part of the text was shown already."""
        if self._show is not None and self._parts:
            return False
        self._begin()
        return True

    def _say(self, text: str, tokens: Sequence[WrittenToken] = ()) -> None:
        """Emits text; with tokens, the text is theirs."""
        text = "".join(token.text for token in tokens) or text
        self.written += tokens
        if text or tokens:
            self._parts.append(text)
            if self._show is not None:
                self._show(text, tokens)


def total_usage(usages: Sequence[Usage]) -> Usage:
    """Usage of concurrent sequences: all tokens, the earliest start, the latest end."""
    queued = [usage.queued_s for usage in usages if usage.queued_s is not None]
    first = [usage.first_token_s for usage in usages if usage.first_token_s is not None]
    read_tokens, new_tokens = sum(usage.read_tokens for usage in usages), sum(usage.new_tokens for usage in usages)
    total_s = max((usage.total_s for usage in usages), default=0.0)
    return Usage(read_tokens, new_tokens, min(queued, default=None), min(first, default=None), total_s)
