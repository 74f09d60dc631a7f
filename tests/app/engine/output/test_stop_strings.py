from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.output.output_processor import StopStringMatcher


def watched(stops: list[str], deltas: list[str]) -> tuple[list[str], bool]:
    watch = StopStringMatcher(stops)
    shown = [watch.feed(delta) for delta in deltas]
    return [*shown, watch.finish()], watch.stopped


def expected(stops: list[str], text: str) -> tuple[str, bool]:
    """By the definition: the shortest beginning of the text that ends with a stop string, without that."""
    for end in range(len(text) + 1):
        if ends := [stop for stop in stops if text[:end].endswith(stop)]:
            return text[: end - max(map(len, ends))], True
    return text, False


@given(
    st.lists(st.text("aab", min_size=1, max_size=5), max_size=4),
    st.lists(st.text("aabc", max_size=4), max_size=12),
)
def test_any_text_ends_before_its_first_stop_string(stops: list[str], deltas: list[str]) -> None:
    shown, stopped = watched(stops, deltas)
    assert ("".join(shown), stopped) == expected(stops, "".join(deltas))


def test_every_short_text_and_every_pair_of_short_stop_strings() -> None:
    words = ["".join(word) for length in range(1, 5) for word in itertools.product("ab", repeat=length)]
    texts = ["".join(word) for word in itertools.product("ab", repeat=7)]
    for stops in [[word] for word in words] + [[one, "aab"] for one in words]:
        for text in texts:
            shown, stopped = watched(stops, list(text))
            assert ("".join(shown), stopped) == expected(stops, text)


@given(st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.lists(st.text("ab", max_size=3), max_size=9))
def test_shown_text_is_final_and_only_possible_stop_strings_are_held(stops: list[str], deltas: list[str]) -> None:
    watch, shown, read = StopStringMatcher(stops), "", ""
    for delta in deltas:
        shown, read = shown + watch.feed(delta), read + delta
        if watch.stopped:
            break
        held = read[len(shown) :]
        assert read.startswith(shown)
        assert held == max((s[:k] for s in stops for k in range(len(s)) if read.endswith(s[:k])), key=len, default="")


@pytest.mark.parametrize(
    ("deltas", "shown"),
    [
        (["ab", "c\n", "\n", "d"], ["ab", "c", "", "", ""]),  # the first line end is held, and never comes
        (["ab\n", "c"], ["ab", "\nc", ""]),
        (["ab\n"], ["ab", "\n"]),  # nothing came of it
    ],
)
def test_the_beginning_of_a_stop_string_is_held_back(deltas: list[str], shown: list[str]) -> None:
    assert watched(["\n\n"], deltas)[0] == shown
