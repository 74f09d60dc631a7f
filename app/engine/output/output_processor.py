"""The text side of an answer: tokens in, text out, for one text while it is generated.

Detokenization of a few tokens at a time, stop strings, the part of the text that each token added, and repetition
loops. A tokenizer's `decode` of all tokens says what the text is; the detokenizer decodes each token once, with what
its text may depend on: whether a text has begun (a first space is left out), the bytes of a character that is not whole
yet, and, where a tokenizer trims its texts, white space that may turn out to be the last.
"""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import repeat

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
MOST_OPEN_BYTES = 3  # of the four that a character may have


class Detokenizer:
    """The texts that `feed` gives, and `finish` at the end, join to `tokenizer.decode` of all tokens fed."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = tokenizer.special.ids()
        self._held: list[int] = []  # tokens of bytes that may begin a character: at most 3
        self._silent: dict[int, None] = {}  # tokens before the first that brought text; each once says all
        self._anchor: tuple[int, int] | None = None  # once a text has begun: a token that is text, and how long that is
        # of a tokenizer that trims: white space behind the text that was given; None: none was given yet
        self._blank: str | None = None

    @property
    def held(self) -> int:
        """How many of the last tokens no text was given for yet: they may begin a character."""
        return len(self._held)

    def feed(self, tokens: Iterable[int]) -> str:
        """The text that is certain now and was not before; "" where the next token may still change it."""
        settled = self._held + [token for token in tokens if token not in self._special]
        self._held = []
        tail = self._bytes_at_end(settled)
        if open_bytes := len(tail) - settled_byte_count(tail):
            self._held = settled[-open_bytes:]
            del settled[-open_bytes:]
        return self._trimmed(self._decode(settled))

    def finish(self) -> str:
        """The rest: what is left of a character that never became whole."""
        rest, self._held = self._held, []
        return self._trimmed(self._decode(rest))

    def _trimmed(self, text: str) -> str:
        """Without white space before the first word, and with what was held back only once another word follows."""
        if not self._tokenizer.trims:
            return text
        text = text.lstrip() if self._blank is None else self._blank + text
        shown = text.rstrip()
        if shown or self._blank is not None:
            self._blank = text[len(shown) :]
        return shown

    def _bytes_at_end(self, tokens: list[int]) -> list[int]:
        """Those that the tokens end with, as far back as a character reaches."""
        found: list[int] = []
        for token in reversed(tokens[-MOST_OPEN_BYTES:]):
            if (byte := self._byte(token)) is None:
                break
            found.insert(0, byte)
        return found

    def _byte(self, token: int) -> int | None:
        match = BYTE_PIECE.fullmatch(self._tokenizer.piece(token))
        return None if match is None else int(match[1], 16)  # a word that is spelt so is held no longer than a byte

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


def find_anchor(tokenizer: Tokenizer) -> tuple[int, int]:
    """A token whose text is whole by itself, and the length of that text: what follows it is not a text's beginning."""
    for token in reversed(range(tokenizer.size)):
        text = tokenizer.untrimmed([token])
        if text and REPLACEMENT_CHARACTER not in text:
            return token, len(text)
    raise ValueError("No token of this vocabulary stands for a text.")


def text_after_others(tokenizer: Tokenizer, token: int) -> str:
    """How a token reads behind others: with the space that it begins with."""
    anchor, length = find_anchor(tokenizer)
    text = tokenizer.untrimmed([anchor, token])[length:]
    return text if text and REPLACEMENT_CHARACTER not in text else tokenizer.piece(token)


def settled_byte_count(values: list[int]) -> int:
    """How many of these bytes no further byte can change: all but the beginning of a character at their end."""
    for place, value in enumerate(values):
        following = values[place + 1 : place + character_length(value)]
        if len(following) < character_length(value) - 1 and all(0x80 <= each < 0xC0 for each in following):
            return place
    return len(values)


def character_length(first: int) -> int:
    """How many bytes a character of UTF-8 has that begins with this one; 1 if none does."""
    return 2 if 0xC0 <= first < 0xE0 else 3 if 0xE0 <= first < 0xF0 else 4 if 0xF0 <= first < 0xF8 else 1


class StopStringMatcher:
    """Lets a text through up to the first stop string to be complete, and holds back what may become one.

    Knuth, Morris and Pratt (1977): for each stop string, how much of its beginning the text ends with now. So a
    character costs the same however long the text and the stop strings are.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [(stop, border_lengths(stop)) for stop in stops] if stops else []
        self._matched = [0] * len(self._stops)
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """The text that is certain to stay and was not before; the stop string and what follows never is."""
        if self.stopped:
            return ""
        if not self._stops:
            return text
        for place, character in enumerate(text, start=1):
            if complete := self._read(character):
                self.stopped = True
                before = self._held + text[:place]
                self._held = ""
                return before[: len(before) - complete]
        whole, kept = self._held + text, max(self._matched)
        certain = len(whole) - kept
        self._held = whole[certain:]
        return whole[:certain]

    def finish(self) -> str:
        """What was held back: no stop string came of it."""
        held, self._held = self._held, ""
        return held

    def _read(self, character: str) -> int:
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


def border_lengths(stop: str) -> list[int]:
    """At each place: how long a beginning of `stop` is also the end of what was read up to there (but not all)."""
    found = [0] * len(stop)
    length = 0
    for place in range(1, len(stop)):
        while length and stop[length] != stop[place]:
            length = found[length - 1]
        length += stop[length] == stop[place]
        found[place] = length
    return found


MAX_PERIOD = 30  # tokens of what comes again and again
MIN_REPEATS, MIN_TOKENS = 4, 12  # it comes so often at least, and fills so many tokens
MAX_PERIOD_CHARACTERS = 200  # of what comes again and again in a source
MAX_RATIO_TO_SOURCE = 2  # a text may repeat so many times as often as its source does

TokenIds = Sequence[int]


def is_repetitive(tokens: TokenIds, decode: Callable[[TokenIds], str], source: str, *, at_end: bool = False) -> bool:
    """tokens: what was written, which `decode` reads. source: what it is about; where this repeats something about as
    often, so may the text. at_end: only what the text ends with counts."""
    if len(tokens) - len(set(tokens)) < MIN_TOKENS - MIN_TOKENS // MIN_REPEATS:  # what a run repeats
        return False
    run = repeated_suffix(tokens) if at_end else repeated_run(tokens)
    return bool(run) and most_repeats(decode(run)) > MAX_RATIO_TO_SOURCE * most_repeats(source)


def repeated_run(tokens: TokenIds) -> TokenIds:
    """A run of at most LONGEST tokens, TIMES times or more, at any place; () if there is none. The last time may be cut
    off."""
    for period in range(1, min(MAX_PERIOD, len(tokens) // MIN_REPEATS) + 1):
        alike = max(
            (MIN_REPEATS - 1) * period, MIN_TOKENS - period
        )  # so many in a row are what they were a period before
        for place in range(period + alike - 1, len(tokens), alike):  # one of these is among them
            start, end = place, place + 1
            while start >= period and tokens[start] == tokens[start - period]:
                start -= 1
            while start < place and end < len(tokens) and tokens[end] == tokens[end - period]:
                end += 1
            if end - start - 1 >= alike:
                return tokens[start + 1 - period : end]
    return ()


def repeated_suffix(tokens: TokenIds) -> TokenIds:
    """The end that is one run of at most LONGEST tokens, TIMES times or more; () if there is none. The last time may be
    cut off."""
    last = len(tokens) - 1
    for period in range(1, min(MAX_PERIOD, len(tokens) // MIN_REPEATS) + 1):
        if tokens[last] != tokens[last - period]:
            continue
        start = last - period
        while start >= 0 and tokens[start] == tokens[start + period]:
            start -= 1
        count = last - start
        if count >= max(MIN_REPEATS * period, MIN_TOKENS):
            return tokens[start + 1 :]
    return ()


def most_repeats(text: str) -> float:
    """How often the part of the text that is repeated most comes in a row, at any place; white space does not count.
    1 where nothing is repeated, 0 of nothing."""
    codes = np.frombuffer("".join(text.split()).casefold().encode("utf-32-le", "surrogatepass"), dtype="<u4")
    most = float(len(codes) > 0)
    for period in range(1, min(MAX_PERIOD_CHARACTERS, len(codes) // 2) + 1):
        if len(codes) / period <= most:
            break
        differ = np.flatnonzero(codes[period:] != codes[:-period])
        edges = np.concatenate(([-1], differ, [len(codes) - period]))
        most = max(most, (int(np.diff(edges).max()) - 1 + period) / period)
    return most


TopTexts = tuple[tuple[int, str, float], ...]
TopIds = Sequence[tuple[int, float]]


class TokenTexts:
    """The tokens that `release`, `cut` and `end` return have texts that join to the text that is certain, but for the
    beginning of a token's text whose end is not certain yet: a token leaves whole, and once."""

    def __init__(self, text_of: Callable[[int], str] = str) -> None:
        self._text_of = text_of  # of a token by itself, among the likeliest
        self._open: deque[tuple[int, float, TopTexts]] = deque()  # tokens whose text may still change
        self._waiting: deque[WrittenToken] = deque()  # their text may still be taken back
        self._silent: list[WrittenToken] = []  # without text of their own, before one that has some
        self._certain = 0  # characters of the waiting ones that nothing takes back

    def add(self, token: int, log_probability: float, text: str, held: int, top: TopIds = ()) -> None:
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
        self._made: Detokenizer | None = None
        self._watch = StopStringMatcher(self.stops)
        writer = self.checkpoint.tokenizers["target"]
        self._texts = TokenTexts(cache(lambda token: text_after_others(writer, token))) if self.logprobs else None
        self.written: list[WrittenToken] = []
        self.first_token_s: float | None = None

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def _detokenizer(self) -> Detokenizer:
        """Made with the first token: most answers come whole."""
        if self._made is None:
            self._made = Detokenizer(self.checkpoint.tokenizers["target"])
        return self._made

    @property
    def stopped(self) -> bool:
        """A stop string has ended it."""
        return self._watch.stopped

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
            self.first_token_s = time.monotonic() - self._started
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
        return Usage(read_tokens, new_tokens, queued_s, self.first_token_s, time.monotonic() - self._started)

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
