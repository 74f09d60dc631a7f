"""From maps to links, Pharaoh's text, and the error of both."""

from __future__ import annotations

import pytest
import torch

from models.inspection.word_alignment import (
    GoldLinks,
    Link,
    alignment_error_rate,
    link_pairs,
    links,
    map_over_units,
    pharaoh,
)

# "the cats sleep </s>" from ">>eng<< die Kat zen schlafen </s>"
SOURCE_UNITS = [None, 0, 1, 1, 2, None]
TARGET_UNITS = [0, 1, 2, None]
WEIGHTS = torch.tensor(
    [
        [0.5, 0.3, 0.1, 0.0, 0.1, 0.0],
        [0.0, 0.3, 0.2, 0.2, 0.1, 0.2],
        [0.1, 0.1, 0.1, 0.0, 0.3, 0.4],
        [0.0, 0.0, 0.1, 0.0, 0.0, 0.9],
    ]
)


def test_word_weights_combine_their_pieces() -> None:
    results = links(WEIGHTS, SOURCE_UNITS, TARGET_UNITS)
    assert [link[:2] for link in results] == [(0, 0), (1, 1), (2, 2)]
    assert [link.weight for link in results] == pytest.approx([0.3, 0.4, 0.3], abs=1e-6)
    tokens = links(WEIGHTS, [None, 0, 1, 2, 3, None], TARGET_UNITS)
    assert [link[:2] for link in tokens] == [(0, 0), (0, 1), (3, 2)], "alone, no piece of the cats has as much"
    assert pharaoh(results) == "0-0 1-1 2-2"


def test_special_tokens_are_never_linked() -> None:
    results = links(WEIGHTS, SOURCE_UNITS, TARGET_UNITS)
    assert len(results) == 3, "the end token of the target has no link"
    assert results[0].source == 0, "although the language token has more of the row"
    assert results[2].source == 2, "although the end token has more of the row"


def test_shifted_reading_differs_by_one_row() -> None:
    weights = torch.eye(4)[[2, 0, 1, 3]]
    source = [0, 1, 2, None]
    assert pharaoh(links(weights, source, TARGET_UNITS, "predicting")) == "0-1 1-2 2-0"
    shifted = torch.eye(4)[[3, 2, 0, 1]]
    assert pharaoh(links(shifted, source, TARGET_UNITS, "input")) == "0-1 1-2 2-0"
    assert links(shifted, source, TARGET_UNITS, "predicting") != links(shifted, source, TARGET_UNITS, "input")


def test_last_token_of_an_unfinished_text_is_unaligned() -> None:
    weights = torch.eye(3)
    assert pharaoh(links(weights, [0, 1, 2], [0, 1, 2], "input")) == "1-0 2-1"
    assert pharaoh(links(weights, [0, 1, 2], [0, 1, 1], "input")) == "1-0 2-1", "a word's other pieces still say where"


def test_rows_of_units_are_averaged_and_columns_summed() -> None:
    result = map_over_units(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]]), [4, 4, 7], [3, 3])
    assert (result.targets, result.sources) == ([3], [4, 7])
    assert result.weights.tolist() == [pytest.approx([0.6, 0.4], abs=1e-6)]


def test_empty_alignment() -> None:
    assert links(torch.eye(2), [None, None], [0, 1]) == []
    assert links(torch.eye(2), [0, 1], [None, None]) == []
    assert links(torch.tensor([[0.0, 1.0]]), [0, None], [0]) == [], "all of the row is on a special token"
    assert pharaoh([]) == ""


def test_mismatched_map_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(4, 6\) does not fit 3 target and 6 source tokens"):
        links(WEIGHTS, SOURCE_UNITS, [0, 1, 2])


# Errors -------------------------------------------------------------------------------------------------


def test_pharaoh_is_in_order() -> None:
    assert pharaoh([Link(2, 1, 0.5), Link(10, 0, 0.5), Link(0, 0, 1.0)]) == "0-0 2-1 10-0"


def read_pharaoh(text: str) -> GoldLinks:
    """ "i-j" is sure, "ipj" possible."""
    pairs = [(tuple(map(int, word.replace("p", "-").split("-"))), "p" not in word) for word in text.split()]
    return GoldLinks(frozenset(p for p, sure in pairs if sure), frozenset(p for p, _ in pairs))


def rate(found: str, gold: str) -> float:
    return alignment_error_rate([(read_pharaoh(found).sure, read_pharaoh(gold))])


def test_error_rates_equal_manual_computation() -> None:
    assert rate("0-0 1-1", "0-0 1-1") == 0
    assert rate("0-0 1-1", "0-1 1-0") == 1
    assert rate("0-0 1-1", "0-0 1p1") == 0, "what is possible is no error"
    assert rate("0-0", "0-0 1p1") == 0, "nor is leaving it out"
    assert rate("0-0 2-2", "0-0 1-1 2p2") == pytest.approx(1 - (1 + 2) / (2 + 2))
    assert rate("", "0-0") == 1
    assert rate("", "") == 0


def test_sentences_count_by_their_links() -> None:
    two = [(read_pharaoh("0-0").sure, read_pharaoh("0-0")), (read_pharaoh("0-0 1-1 2-2").sure, read_pharaoh("0-1"))]
    assert alignment_error_rate(two) == pytest.approx(1 - 2 / 6)
    assert link_pairs([Link(1, 2, 0.3)]) == {(1, 2)}
