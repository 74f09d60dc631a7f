"""Which way of decoding each option leaves open, as `models.decoding` lists them: observed by which of its methods a
network is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.decoding.decoder import Decoder
from models.decoding.device_step import needs_host
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import BeamTable, EndedBeam, Prompt
from tests.models.decoding.draws import CUTS

ROW, BEAM = (
    DecodingOptions(max_new_tokens=4, scores=False, streamed=False),
    DecodingOptions(beam_size=2, streamed=False),
)
# option -> a value that matters; whether the host's own step is needed with it in a row and in a beam (None: the option
# is none of theirs), and whether a GPU needs the host for it
WAYS: dict[str, tuple[Any, bool | None, bool | None, bool]] = {
    "max_new_tokens": (3, False, False, False),
    "beam_size": (3, None, False, False),
    "n_best": (2, None, False, False),
    "length_penalty": (0.5, False, False, False),
    "temperature": (0.7, True, None, False),
    **{name: (value, False, False, False) for cut in CUTS for name, value in cut.items()},  # none is drawn at 0
    "seed": (1, False, False, False),
    "scores": (True, True, False, False),
    "logprobs": (True, True, None, False),
    "top_logprobs": (2, True, None, True),
    "streamed": (True, False, True, False),
    "required": ((((3,),),), None, True, True),
    "no_repeat_ngram_size": (2, True, True, True),
    "presence_penalty": (0.5, True, None, False),
    "frequency_penalty": (0.5, True, None, False),
    "repetition_penalty": (1.5, True, None, False),
}


class Asked:
    """A network of four tokens that notes how it is stepped."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.asked = set[str]()

    def allocate(self, slots: int, source_length: int, target_length: int) -> None:
        return None

    def prefill(self, state: None, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        pass

    def copy(self, state: None, *_: Sequence[int] | None) -> None:
        pass

    def step(self, state: None, tokens: Tensor, group: int = 1) -> Tensor:
        self.asked.add("step")
        return torch.zeros(len(tokens), 8)

    def likeliest(self, state: None, tokens: Tensor, suppressed: tuple[int, ...]) -> Tensor:
        self.asked.add("likeliest")
        return torch.full((len(tokens),), 3)

    def advance_beams(
        self,
        state: None,
        table: BeamTable,
        rows: np.ndarray[Any, Any],
        prefix_lengths: np.ndarray[Any, Any],
        feed: np.ndarray[Any, Any],
        seconds: float,
    ) -> tuple[int, list[EndedBeam]]:
        self.asked.add("advance_beams")
        table.done[0] = True
        return 1, []


def needs_own_step(options: DecodingOptions) -> bool:
    network = Asked()
    decoder = Decoder(network, TokenRules(2), slots=4, source_length=1, target_length=8)
    decoder.join([(0, Prompt((), (1,)), options)])
    decoder.step()
    assert len(network.asked) == 1
    return network.asked == {"step"}


def test_every_option_has_its_ways() -> None:
    assert WAYS.keys() == {field.name for field in fields(DecodingOptions)}


@pytest.mark.parametrize("name", WAYS)
def test_an_option_leaves_these_ways_open(name: str) -> None:
    value, in_row, in_beam, on_gpu = WAYS[name]
    given = {name: value, **({"logprobs": True} if name == "top_logprobs" else {})}
    for base, expected in ((ROW, in_row), (BEAM, in_beam)):
        if expected is None:
            continue
        base_options = {each.name: getattr(base, each.name) for each in fields(base)} | {"max_new_tokens": 4}
        options = DecodingOptions(**{**base_options, **given})
        assert needs_own_step(options) == expected, options
        assert needs_host(options) == on_gpu, options
