"""Beam bookkeeping by hand-made candidates, without any network."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest

from models.beam import Beam, unchain

EOS = 9
Candidate = tuple[float, int, int]  # log-probability, which hypothesis it continues, with what


def advance(beam: Beam, candidates: list[Candidate]) -> list[tuple[int, int]]:
    """Which hypothesis each live one continues, and with what."""
    values, parents, tokens = zip(*candidates, strict=True)
    beam.advance(values, parents, tokens)
    return list(zip(beam.parents, beam.tokens, strict=True))


def test_chains() -> None:
    assert unchain(None) == ()
    assert unchain((((None, 3), 4), 5)) == (3, 4, 5)


def test_candidates_become_live_or_finished() -> None:
    beam = Beam(2, 1.0, 10, EOS)
    assert beam.log_probabilities == [0.0, -math.inf]
    live = advance(beam, [(-0.5, 0, 3), (-0.7, 0, EOS), (-1.0, 0, 4), (-2.0, 0, 5)])
    assert live == [(0, 3), (0, 4)]
    assert beam.log_probabilities == [-0.5, -1.0]
    assert [(h.tokens, h.log_probability, h.score, h.finished) for h in beam.finished] == [((), -0.7, -0.7, True)]
    assert not beam.done
    live = advance(beam, [(-1.1, 1, 5), (-1.2, 0, EOS), (-1.3, 0, 3), (-9.0, 1, EOS)])
    assert [unchain(chain) for chain in beam.chains] == [(4, 5), (3, 3)]
    assert [h.tokens for h in beam.results(2)] == [(3,), ()]
    assert [h.score for h in beam.results(2)] == [-0.6, -0.7]
    # the best live one scores -1.1 / 2 = -0.55, better than the worst of the finished: it goes on
    assert not beam.done
    advance(beam, [(-2.2, 0, 5), (-2.3, 1, 5)])  # -2.2 / 3 < -0.7
    assert beam.done


def test_an_end_beyond_the_width_does_not_count() -> None:
    beam = Beam(2, 1.0, 10, EOS)
    live = advance(beam, [(-0.1, 0, 3), (-0.2, 0, 4), (-0.3, 0, EOS), (-0.4, 0, 5)])
    assert [token for _, token in live] == [3, 4]
    assert beam.finished == []


@pytest.mark.parametrize(("penalty", "first"), [(0.0, ()), (1.0, (3, 3)), (0.5, ())])
def test_length_penalty_weighs_long_against_short(penalty: float, first: tuple[int, ...]) -> None:
    """-1.0 after one token, -2.4 after three: -1.0 and -2.4, -1.0 and -0.8, -1.0 and -1.386."""
    beam = Beam(2, penalty, 10, EOS)
    advance(beam, [(-1.0, 0, EOS), (-1.1, 0, 3), (-9.0, 0, 4)])
    advance(beam, [(-1.5, 0, 3), (-9.5, 0, 4)])
    advance(beam, [(-2.4, 0, EOS), (-3.0, 0, 3), (-9.9, 1, 4)])
    best, other = beam.results(2)
    assert best.tokens == first
    assert [best.score, other.score] == pytest.approx(sorted([-1.0, -2.4 / 3**penalty], reverse=True))


def test_only_the_best_are_kept() -> None:
    beam = Beam(2, 0.0, 10, EOS)
    advance(beam, [(-3.0, 0, EOS), (-3.1, 0, 3), (-3.2, 0, 4)])
    advance(beam, [(-3.2, 0, EOS), (-3.3, 1, EOS), (-3.4, 0, 3), (-3.5, 1, 3)])
    assert [h.tokens for h in beam.results(5)] == [(), (3,)]
    assert beam.done, "nothing live can pass -3.2"


def test_the_limit_cuts_only_where_nothing_ended() -> None:
    cut = Beam(2, 1.0, 2, EOS)
    advance(cut, [(-0.1, 0, 3), (-0.2, 0, 4)])
    advance(cut, [(-0.4, 1, 5), (-0.6, 0, 5)])
    assert cut.done
    assert [(h.tokens, h.score, h.finished) for h in cut.results(2)] == [((4, 5), -0.2, False), ((3, 5), -0.3, False)]
    ended = Beam(2, 1.0, 2, EOS)
    advance(ended, [(-0.1, 0, 3), (-7.0, 0, EOS), (-8.0, 0, 4)])
    advance(ended, [(-0.4, 0, 5), (-0.6, 0, 3)])
    assert [(h.tokens, h.finished) for h in ended.results(2)] == [((), True)]


def test_nothing_left_to_continue_is_an_end() -> None:
    beam = Beam(3, 1.0, 100, EOS)
    advance(beam, [(-0.1, 0, EOS), *[(-math.inf, 0, token) for token in range(5)]])
    assert beam.done
    assert [h.tokens for h in beam.results(3)] == [()]


# What hypotheses have in common -------------------------------------------------------------------------


def test_a_part_of_a_chain() -> None:
    chain = ((((None, 3), 4), 5), 6)
    assert unchain(chain, 1, 4) == (4, 5, 6)
    assert unchain(chain, 4, 4) == ()
    assert unchain(chain, 0, 4) == (3, 4, 5, 6)


def common(sequences: Sequence[tuple[int, ...]]) -> int:
    """How many tokens all of them start with."""
    columns = zip(*sequences, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))


def candidates(beam: Beam, chance: random.Random) -> list[Candidate]:
    """2k of all that could follow, likeliest first; sometimes nearly all from one hypothesis, as when one is far ahead
    of the others, and sometimes an end among the best."""
    alive = [row for row, value in enumerate(beam.log_probabilities) if value > -math.inf]
    ahead, by = chance.choice(alive), chance.choice([0.0, 0.0, 3.0, 20.0])
    possible = [
        (beam.log_probabilities[row] - chance.expovariate(0.5) - by * (row != ahead), row, token)
        for row in alive
        for token in range(13)
        if token != EOS or chance.random() < 0.5
    ]
    return sorted(possible, reverse=True)[: 2 * beam.width]


@pytest.mark.parametrize("width", range(1, 7))
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_what_is_told_of_a_beam_is_what_cannot_change(width: int, penalty: float) -> None:
    ended_first = told_early = 0
    for seed in range(60):
        chance, told = random.Random(seed), list[int]()
        beam = Beam(width, penalty, 14, EOS)
        while not beam.done:
            before = [unchain(chain) for chain in beam.chains]
            advance(beam, candidates(beam, chance))
            moved = [(p, row) for row, p in enumerate(beam.parents) if p != row]
            assert beam.kept == min((common([before[p], before[row]]) for p, row in moved), default=beam.length - 1)
            live = [unchain(chain) for chain in beam.chains]
            best = [beam.finished[0].tokens] if beam.finished else []
            assert beam.agreed == common(live + best), (live, best)
            assert beam.agreed >= len(told)
            for i, j in itertools.combinations(range(width), 2):
                assert beam.shared[i][j] == beam.shared[j][i] == common([live[i], live[j]])
            told += beam.agreed_since(len(told))
            assert told == list(live[0][: beam.agreed])
        result = beam.results(1)[0]
        assert list(result.tokens[: len(told)]) == told
        ended_first += result.finished and beam.length - 1 > len(result.tokens)
        told_early += len(told) > 2
    if width > 1:
        assert ended_first > 5, "the best one often ended before the others"
        assert told_early > 10


def test_hypotheses_that_cannot_be_are_never_said_to_agree_on_more_than_they_do() -> None:
    """At first, and where few tokens are possible, live hypotheses stand in that have no chance, twice the same."""
    beam = Beam(3, 1.0, 9, EOS)
    advance(beam, [(-0.1, 0, 3), (-0.4, 0, 4), *[(-math.inf, 1, token) for token in (3, 4, 5, 6)]])
    before = [unchain(chain) for chain in beam.chains]
    assert (before, beam.agreed) == ([(3,), (4,), (3,)], 0)
    advance(beam, [(-0.5, 0, 5), *[(-math.inf, 2, token) for token in (5, 6, 7, 8, 10)]])
    assert beam.kept <= min(common([before[p], before[row]]) for row, p in enumerate(beam.parents) if p != row)
    assert beam.agreed <= common([unchain(chain) for chain in beam.chains])
