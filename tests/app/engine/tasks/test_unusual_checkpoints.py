"""Inspection of models with unusual special tokens, and of token ids that no text gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app import errors
from app.engine import input_processor
from app.engine.output.token_views import target_side
from app.engine.protocol import messages as m
from app.engine.worker.scheduler import Scheduler
from models import checkpoint as checkpoints
from tests.request_builders import inspect_attention


def test_padding_tokens_are_not_source_tokens(tiny_checkpoints: Path) -> None:
    """The search reads every token before the trailing padding, inspection masks all padding: they would disagree."""
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    pad = checkpoint.config.architecture["pad"]
    with pytest.raises(errors.InvalidRequest, match=f"Token {pad} is padding") as refused:
        input_processor.check_given_source(checkpoint, [5, pad, 6])
    assert refused.value.field == "source_ids"
    input_processor.check_given_source(checkpoint, [5, 6])


def test_start_of_several_tokens_is_inspected(scheduler: Scheduler) -> None:
    units = {"source_units": [0, 1, None], "target_units": [0, None]}
    message = inspect_attention(9, "tiny-de-en", [4, 5, 3], [2, 2, 7], [7, 3], include=("alignment", "steps"), **units)
    scheduler.handle(message)
    (seen,) = scheduler.step()
    scheduler.handle(m.ScoreTokens(8, "tiny-de-en", [4, 5, 3], [2, 2, 7, 3], 0, True))
    (scored,) = scheduler.step()
    assert isinstance(seen, m.AttentionInspected)
    assert isinstance(scored, m.TokensScored)
    assert seen.findings.steps is not None
    assert [step.rank for step in seen.findings.steps] == scored.expected.ranks[1:]
    assert seen.findings.alignment is not None
    assert len(seen.findings.alignment.links) == 1
    assert seen.maps["cross"].shape == (2, 4, 3, 3)


def test_a_target_without_an_end_token_is_not_finished(tiny_checkpoints: Path) -> None:
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    endless = replace(checkpoint, config=replace(checkpoint.config, eos=None))
    ids = checkpoint.tokenizers["target"].encode("i want a beer")
    whole, open_ = (target_side(folder, "i want a beer", ids, finished=True) for folder in (checkpoint, endless))
    assert (len(whole.inputs), len(whole.outputs), whole.finished) == (len(ids) + 1, len(ids) + 1, True)
    assert (len(open_.inputs), len(open_.outputs), open_.finished) == (len(ids), len(ids), False)
