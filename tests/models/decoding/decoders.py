"""Decoders over a scripted network, and options for them."""

from __future__ import annotations

from typing import Any

import pytest

from models.decoding.decoder import Decoder, decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import Prompt
from tests.models.scripted import Scripted

EOS = 2
RULES = TokenRules(EOS, (0, 1))
PROMPT = Prompt((5, 6), (1,))
NO_END = TokenRules(None)


def options(**given: Any) -> DecodingOptions:
    return DecodingOptions(**{"max_new_tokens": 5, **given})


def one(network: Scripted, prompt: Prompt, chosen: DecodingOptions, rules: TokenRules = RULES) -> list[Hypothesis]:
    return decode(network, rules, [prompt], chosen)[0]


def decoder_of(network: Scripted, slots: int, rules: TokenRules = RULES, **lengths: Any) -> Decoder:
    return Decoder(network, rules, **{"slots": slots, "source_length": 8, "target_length": 12, **lengths})


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in expected]
    for a, b in zip(found, expected, strict=True):
        assert (a.log_probability, a.score) == pytest.approx((b.log_probability, b.score), abs=1e-5)
