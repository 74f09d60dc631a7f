"""What was expected of a text, as people see it."""

from __future__ import annotations

import math

import numpy as np

from app.engine.interface import TokenExpectation
from app.engine.output.token_views import token_expectations
from app.engine.protocol import messages as m
from models.inspection.results import Candidate
from models.tokenizer import SpecialTokens, VocabularyTokenizer

LETTERS = VocabularyTokenizer("character", ["<pad>", "a", "b"], SpecialTokens(pad=0))


def values(array: list[float] | list[list[float]]) -> m.FloatTensor:
    numbers = np.array(array, dtype="<f4")
    return m.FloatTensor(list(numbers.shape), numbers.tobytes())


def test_last_position_has_an_entropy_and_no_token() -> None:
    top = [[-0.25, -1.5, -4.0], [-0.5, -math.inf, -math.inf]]
    result = token_expectations(
        LETTERS, m.ExpectedTokens(values([-1.5]), [2], values([1.25, 0.5]), [[1, 2, 0], [2, 1, 0]], values(top))
    )
    a, b, pad = Candidate(1, -0.25, "a", "a"), Candidate(2, -1.5, "b", "b"), Candidate(0, -4.0, "<pad>", "")
    assert result == (
        TokenExpectation(-1.5, 2, 1.25, (a, b, pad)),
        TokenExpectation(None, None, 0.5, (Candidate(2, -0.5, "b", "b"),)),
    )


def test_rows_behind_the_vocabulary_have_no_name_and_are_left_out() -> None:
    (result,) = token_expectations(
        LETTERS, m.ExpectedTokens(values([]), [], values([1.0]), [[7, 1]], values([[-1.0, -2.0]]))
    )
    assert result.top == (Candidate(1, -2.0, "a", "a"),)


def test_without_a_request_nothing_is_recorded() -> None:
    (result,) = token_expectations(
        LETTERS, m.ExpectedTokens(values([-1.0]), [4], values([1.0]), [[]], m.FloatTensor([1, 0], b""))
    )
    assert result == TokenExpectation(-1.0, 4, 1.0, ())
