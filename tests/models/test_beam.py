"""Beam bookkeeping by hand-made candidates, without any network."""

from __future__ import annotations

import math

import pytest

from models.beam import Beam, Candidate, unchain

EOS = 9


def test_chains() -> None:
    assert unchain(None) == ()
    assert unchain((((None, 3), 4), 5)) == (3, 4, 5)


def test_candidates_become_live_or_finished() -> None:
    beam = Beam(2, 1.0, 10, EOS)
    assert beam.log_probabilities == [0.0, -math.inf]
    live = beam.advance([Candidate(-0.5, 0, 3), Candidate(-0.7, 0, EOS), Candidate(-1.0, 0, 4), Candidate(-2.0, 0, 5)])
    assert [(c.parent, c.token) for c in live] == [(0, 3), (0, 4)]
    assert beam.log_probabilities == [-0.5, -1.0]
    assert [(h.tokens, h.log_probability, h.score, h.finished) for h in beam.finished] == [((), -0.7, -0.7, True)]
    assert not beam.done
    live = beam.advance(
        [Candidate(-1.1, 1, 5), Candidate(-1.2, 0, EOS), Candidate(-1.3, 0, 3), Candidate(-9.0, 1, EOS)]
    )
    assert [unchain(chain) for chain in beam.chains] == [(4, 5), (3, 3)]
    assert [h.tokens for h in beam.results(2)] == [(3,), ()]
    assert [h.score for h in beam.results(2)] == [-0.6, -0.7]
    # the best live one scores -1.1 / 2 = -0.55, better than the worst of the finished: it goes on
    assert not beam.done
    beam.advance([Candidate(-2.2, 0, 5), Candidate(-2.3, 1, 5)])  # -2.2 / 3 < -0.7
    assert beam.done


def test_an_end_beyond_the_width_does_not_count() -> None:
    beam = Beam(2, 1.0, 10, EOS)
    live = beam.advance([Candidate(-0.1, 0, 3), Candidate(-0.2, 0, 4), Candidate(-0.3, 0, EOS), Candidate(-0.4, 0, 5)])
    assert [c.token for c in live] == [3, 4]
    assert beam.finished == []


@pytest.mark.parametrize(("penalty", "first"), [(0.0, ()), (1.0, (3, 3)), (0.5, ())])
def test_length_penalty_weighs_long_against_short(penalty: float, first: tuple[int, ...]) -> None:
    """-1.0 after one token, -2.4 after three: -1.0 and -2.4, -1.0 and -0.8, -1.0 and -1.386."""
    beam = Beam(2, penalty, 10, EOS)
    beam.advance([Candidate(-1.0, 0, EOS), Candidate(-1.1, 0, 3), Candidate(-9.0, 0, 4)])
    beam.advance([Candidate(-1.5, 0, 3), Candidate(-9.5, 0, 4)])
    beam.advance([Candidate(-2.4, 0, EOS), Candidate(-3.0, 0, 3), Candidate(-9.9, 1, 4)])
    best, other = beam.results(2)
    assert best.tokens == first
    assert [best.score, other.score] == pytest.approx(sorted([-1.0, -2.4 / 3**penalty], reverse=True))


def test_only_the_best_are_kept() -> None:
    beam = Beam(2, 0.0, 10, EOS)
    beam.advance([Candidate(-3.0, 0, EOS), Candidate(-3.1, 0, 3), Candidate(-3.2, 0, 4)])
    beam.advance([Candidate(-3.2, 0, EOS), Candidate(-3.3, 1, EOS), Candidate(-3.4, 0, 3), Candidate(-3.5, 1, 3)])
    assert [h.tokens for h in beam.results(5)] == [(), (3,)]
    assert beam.done, "nothing live can pass -3.2"


def test_the_limit_cuts_only_where_nothing_ended() -> None:
    cut = Beam(2, 1.0, 2, EOS)
    cut.advance([Candidate(-0.1, 0, 3), Candidate(-0.2, 0, 4)])
    cut.advance([Candidate(-0.4, 1, 5), Candidate(-0.6, 0, 5)])
    assert cut.done
    assert [(h.tokens, h.score, h.finished) for h in cut.results(2)] == [((4, 5), -0.2, False), ((3, 5), -0.3, False)]
    ended = Beam(2, 1.0, 2, EOS)
    ended.advance([Candidate(-0.1, 0, 3), Candidate(-7.0, 0, EOS), Candidate(-8.0, 0, 4)])
    ended.advance([Candidate(-0.4, 0, 5), Candidate(-0.6, 0, 3)])
    assert [(h.tokens, h.finished) for h in ended.results(2)] == [((), True)]


def test_nothing_left_to_continue_is_an_end() -> None:
    beam = Beam(3, 1.0, 100, EOS)
    beam.advance([Candidate(-0.1, 0, EOS), *[Candidate(-math.inf, 0, token) for token in range(5)]])
    assert beam.done
    assert [h.tokens for h in beam.results(3)] == [()]
