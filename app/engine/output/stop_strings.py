"""Stop strings: where a text ends because of what it says."""

from __future__ import annotations

from collections.abc import Sequence


class StopStringMatcher:
    """Lets a text through up to the first stop string to be complete, and holds back what may become one.

    Knuth, Morris and Pratt (1977): for each stop string, how much of its beginning the text ends with now. So a
    character costs the same however long the text and the stop strings are.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [(stop, border_lengths(stop)) for stop in stops]
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
