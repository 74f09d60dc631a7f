"""Beam bookkeeping by hand-made candidates, without any network."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from models.backends.top_k import Continuations
from models.decoding.beam import ActiveRequest, Beams
from models.decoding.options import DecodingOptions, Hypothesis
from models.interface import Prompt

EOS = 9
PROMPT = Prompt((), (1,))
Candidate = tuple[float, int, int]  # log-probability, which hypothesis it continues, with what


class Beam:
    """One, alone in its `Beams`."""

    def __init__(self, width: int, length_penalty: float, max_new_tokens: int, eos: int | None) -> None:
        self.width, self.beams = width, Beams(width, eos, 1, max_new_tokens)
        options = DecodingOptions(max_new_tokens=max_new_tokens, beam_size=width, length_penalty=length_penalty)
        self.beams.add(ActiveRequest(0, PROMPT, options))

    @property
    def log_probabilities(self) -> list[float]:
        result: list[float] = self.beams.log_probabilities[0].tolist()
        return result

    @property
    def live(self) -> list[tuple[int, ...]]:
        length = int(self.beams.lengths[0])
        return [self.beams.written(0, row, length) for row in range(self.width)]

    @property
    def length(self) -> int:
        return int(self.beams.lengths[0])

    @property
    def done(self) -> bool:
        return self.length > 0 and bool(self.beams.done[0])

    def results(self, count: int) -> list[Hypothesis]:
        return self.beams.results(0, count)

    @property
    def ended(self) -> list[Hypothesis]:
        return self.results(self.width) if self.beams.ended[0] else []


def advance(beam: Beam, candidates: list[Candidate]) -> list[tuple[int, int]]:
    """Which hypothesis each live one continues, and with what."""
    values, parents, tokens = zip(*candidates, strict=True)
    result = np.array([parents]), np.array([tokens])
    beam.beams.advance(Continuations(np.array([values], dtype=np.float32), *result))
    return list(zip(beam.beams.origins[0].tolist(), beam.beams.new_tokens[0].tolist(), strict=True))


def test_candidates_become_live_or_finished() -> None:
    beam = Beam(2, 1.0, 10, EOS)
    assert beam.log_probabilities == [0.0, -math.inf]
    live = advance(beam, [(-0.5, 0, 3), (-0.7, 0, EOS), (-1.0, 0, 4), (-2.0, 0, 5)])
    assert live == [(0, 3), (0, 4)]
    assert beam.log_probabilities == [-0.5, -1.0]
    (ended,) = beam.ended
    assert (ended.tokens, ended.finished) == ((), True)
    assert (ended.log_probability, ended.score) == pytest.approx((-0.7, -0.7))
    assert not beam.done
    live = advance(beam, [(-1.1, 1, 5), (-1.2, 0, EOS), (-1.3, 0, 3), (-9.0, 1, EOS)])
    assert beam.live == [(4, 5), (3, 3)]
    assert [h.tokens for h in beam.results(2)] == [(3,), ()]
    assert [h.score for h in beam.results(2)] == pytest.approx([-0.6, -0.7])
    # the best live one scores -1.1 / 2 = -0.55, better than the worst of the finished: it goes on
    assert not beam.done
    advance(beam, [(-2.2, 0, 5), (-2.3, 1, 5)])  # -2.2 / 3 < -0.7
    assert beam.done


def test_an_end_beyond_the_width_does_not_count() -> None:
    beam = Beam(2, 1.0, 10, EOS)
    live = advance(beam, [(-0.1, 0, 3), (-0.2, 0, 4), (-0.3, 0, EOS), (-0.4, 0, 5)])
    assert [token for _, token in live] == [3, 4]
    assert beam.ended == []


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


def test_only_the_best_hypotheses_are_kept() -> None:
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
    assert [(h.tokens, h.finished) for h in cut.results(2)] == [((4, 5), False), ((3, 5), False)]
    assert [h.score for h in cut.results(2)] == pytest.approx([-0.2, -0.3])
    ended = Beam(2, 1.0, 2, EOS)
    advance(ended, [(-0.1, 0, 3), (-7.0, 0, EOS), (-8.0, 0, 4)])
    advance(ended, [(-0.4, 0, 5), (-0.6, 0, 3)])
    assert [(h.tokens, h.finished) for h in ended.results(2)] == [((), True)]


def test_beam_without_continuations_ends() -> None:
    beam = Beam(3, 1.0, 100, EOS)
    advance(beam, [(-0.1, 0, EOS), *[(-math.inf, 0, token) for token in range(5)]])
    assert beam.done
    assert [h.tokens for h in beam.results(3)] == [()]


# What hypotheses have in common -------------------------------------------------------------------------


def test_part_of_a_hypothesis() -> None:
    beam = Beam(1, 1.0, 9, EOS)
    for token in (3, 4, 5, 6):
        advance(beam, [(-0.1, 0, token), (-0.2, 0, 8)])
    assert beam.beams.written(0, 0, 4, 1) == (4, 5, 6)
    assert beam.beams.written(0, 0, 2) == (3, 4)
    assert beam.beams.written(0, 0, 4, 4) == ()


def common(sequences: Sequence[tuple[int, ...]]) -> int:
    """How many tokens all of them start with."""
    columns = zip(*sequences, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))


def candidates(beam: Beam, rng: random.Random) -> list[Candidate]:
    """2k of all that could follow, likeliest first; sometimes nearly all from one hypothesis, as when one is far ahead
    of the others, and sometimes an end among the best."""
    alive = [row for row, value in enumerate(beam.log_probabilities) if value > -math.inf]
    ahead, by = rng.choice(alive), rng.choice([0.0, 0.0, 3.0, 20.0])
    possible = [
        (beam.log_probabilities[row] - rng.expovariate(0.5) - by * (row != ahead), row, token)
        for row in alive
        for token in range(13)
        if token != EOS or rng.random() < 0.5
    ]
    return sorted(possible, reverse=True)[: 2 * beam.width]


@pytest.mark.every_value
@pytest.mark.parametrize("width", range(1, 7))
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_streamed_prefix_of_a_beam_is_final(width: int, penalty: float) -> None:
    ended_first = early_streams = 0
    for seed in range(60):
        rng, agreed_so_far = random.Random(seed), list[int]()
        beam = Beam(width, penalty, 14, EOS)
        while not beam.done:
            before = beam.live
            advance(beam, candidates(beam, rng))
            for row, parent in enumerate(beam.beams.origins[0].tolist()):
                same = beam.length - 1 if parent == row else common([before[parent], before[row]])
                assert beam.beams.common[0, row] == same
            live, best = beam.live, [hypothesis.tokens for hypothesis in beam.ended[:1]]
            agreed = int(beam.beams.agreed()[0])
            assert agreed == common(live + best), (live, best)
            assert agreed >= len(agreed_so_far)
            for i, j in itertools.combinations(range(width), 2):
                shared = beam.beams.shared[0]
                assert shared[i, j] == shared[j, i] == common([live[i], live[j]])
            agreed_so_far += [token for _, token in beam.beams.agreed_tokens()]
            assert agreed_so_far == list(live[0][:agreed])
        result = beam.results(1)[0]
        assert list(result.tokens[: len(agreed_so_far)]) == agreed_so_far
        ended_first += result.finished and beam.length - 1 > len(result.tokens)
        early_streams += len(agreed_so_far) > 2
    if width > 1:
        assert ended_first > 5, "the best one often ended before the others"
        assert early_streams > 10


def test_common_prefix_ignores_impossible_hypotheses() -> None:
    """At first, and where few tokens are possible, live hypotheses stand in that have no chance, twice the same."""
    beam = Beam(3, 1.0, 9, EOS)
    advance(beam, [(-0.1, 0, 3), (-0.4, 0, 4), *[(-math.inf, 1, token) for token in (3, 4, 5, 6)]])
    before = beam.live
    assert (before, beam.beams.agreed().tolist()) == ([(3,), (4,), (3,)], [0])
    advance(beam, [(-0.5, 0, 5), *[(-math.inf, 2, token) for token in (5, 6, 7, 8, 10)]])
    for row, parent in enumerate(beam.beams.origins[0].tolist()):
        assert beam.beams.common[0, row] <= common([before[parent], before[row]])
    assert beam.beams.agreed()[0] <= common(beam.live)


# Many beams ---------------------------------------------------------------------------------------------


def test_concurrent_beams_equal_single_beams() -> None:
    """Each result equals that of the request alone, whatever the other requests do and whenever they leave."""
    width, room = 3, 5
    ended_among_others = 0
    for seed in range(20):
        rng = random.Random(seed)
        together, alone, news = Beams(width, EOS, room, 12), dict[int, Beam](), dict[int, list[int]]()
        number = 0
        while number < 40 or len(together.requests):
            while number < 40 and len(together.requests) < room and rng.random() < 0.7:
                limit, penalty = rng.randint(1, 12), rng.choice([0.0, 0.6, 1.0])
                alone[number] = Beam(width, penalty, limit, EOS)
                options = DecodingOptions(
                    max_new_tokens=limit, beam_size=width, length_penalty=penalty, streamed=number % 3 > 0
                )
                together.add(ActiveRequest(number, PROMPT, options))
                number += 1
            if not len(together.requests):
                continue
            beams = [alone[request.key] for request in together.requests]
            chosen = [candidates(beam, rng) for beam in beams]
            for beam, choice in zip(beams, chosen, strict=True):
                advance(beam, choice)
            values, parents, tokens = np.array(chosen).transpose(2, 0, 1)
            together.advance(Continuations(values.astype(np.float32), parents.astype(int), tokens.astype(int)))
            for key, token in together.agreed_tokens():
                news.setdefault(key, []).append(token)
            for place, beam in enumerate(beams):
                assert together.common[place].tolist() == beam.beams.common[0].tolist()
                assert together.new_tokens[place].tolist() == beam.beams.new_tokens[0].tolist()
                assert together.done[place] == beam.done
            leaving = [request for request, done in zip(together.requests, together.done, strict=True) if done]
            for request in leaving:
                key = request.key
                agreed_so_far = [token for _, token in alone[key].beams.agreed_tokens()]
                assert news.pop(key, []) == (agreed_so_far if key % 3 else [])
                result = together.results(together.requests.index(request), width)
                assert result == alone[key].results(width)
                ended_among_others += len(together.requests) > 1 and result[0].finished
            for request in leaving:
                together.remove(request)
            if len(together.requests) and rng.random() < 0.1:  # cancelled
                together.remove(rng.choice(together.requests))
    assert ended_among_others > 100
