from __future__ import annotations

import struct

import msgspec
import pytest

from app.engine.protocol import messages as m
from models.child_process import MAX_FRAME_BYTES, FrameSplitter
from models.decoding.options import Hypothesis
from models.inspection.results import AttentionMap, GateSummary
from models.inspection.selection import GateSelection, Head
from tests.app.engine.frames import framed
from tests.request_builders import decode_message, inspect_attention

VALUES = m.FloatTensor([1, 2], b"\0" * 8)
EXPECTED = m.ExpectedTokens(m.FloatTensor([1], b"\0" * 4), [3], VALUES, [[7], [8]], VALUES)


def test_every_message_survives_the_crossing() -> None:
    down = [
        m.Configure("cpu", 2, 64),
        m.Load("a", "/x/a"),
        decode_message(1, "a", [3, 4], [2], 12.5, 20, beam_size=4, n_best=2, length_penalty=0.6, seed=2**63 - 1),
        decode_message(1, "a", [3], [2], 12.5, 20, beam_size=2, required=(((3,), (4, 5)),), scores=True),
        decode_message(1, "a", [3], [2], 12.5, 20, logprobs=True, top_logprobs=3),
        inspect_attention(2, "a", [3], [2], [3], heads=(0, 7), masked=(Head("cross", 0, 1),), deadline=7.5),
        m.InspectGates(4, "a", [3, 4], GateSelection(("z", "h")), 3, 100, deadline=7.5),
        m.ScoreTokens(5, "a", [3], [2, 4], 3, True, deadline=7.5),
        m.AlignPairs(6, "a", [m.TokenPair([3], [2, 4, 3], 1, [0, None], [0, None])], True, True, deadline=7.5),
        m.Cancel(3),
        m.Stop(),
    ]
    up = [
        m.Started("cpu"),
        m.Loaded("a", 0.5),
        m.LoadFailed("b", "why"),
        m.Tokens({1: [7], 2: [9]}, {1: [-0.5]}, {1: [((7, -0.5), (8, -1.5))]}),
        m.Finished(1, [Hypothesis((7, 8), -1.25, -0.625, True, (-0.5, -0.75), (((7, -0.5),), ()))]),
        m.Failed(2, "invalid_request", "no", "layers"),
        m.AttentionInspected(2, {"cross": AttentionMap((0,), (1,), (1, 1, 1, 2), b"\0" * 8)}),
        m.GatesInspected(
            4, "gru", 1, 8, [0], [[7]], {"z": VALUES}, (GateSummary(0, {"z": [0.5]}, {}, {}, [0.25]),), EXPECTED
        ),
        m.TokensScored(5, EXPECTED),
        m.PairsAligned(6, [[(0, 1, 0.5)], []], [[-0.25], []]),
    ]
    for messages, decode in ((down, m.to_device), (up, m.from_device)):
        data = framed(messages)
        (body,) = FrameSplitter().bodies(data)
        assert decode(body) == messages


def test_a_message_of_the_other_direction_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        m.to_device(framed([m.Started("cpu")])[4:])


def test_a_frame_that_announces_too_much_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ValueError, match="over the limit"):
        list(FrameSplitter().bodies(struct.pack(">I", MAX_FRAME_BYTES + 1)))
