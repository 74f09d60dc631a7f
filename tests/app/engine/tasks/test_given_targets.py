"""Invalid targets and prefixes of an inspection are refused by field name, before any computation."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import errors
from app.engine import input_processor
from app.engine.input_processor import check_attention_size
from models import checkpoint as checkpoints
from tests.request_builders import attention_query


@pytest.mark.parametrize("field", ["target", "prefix"])
def test_a_text_that_is_too_long_or_has_no_tokens_is_named(tiny_checkpoints: Path, field: str) -> None:
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    most = checkpoint.config.max_new_tokens
    with pytest.raises(errors.TextTooLong, match=f"This {field} has {most + 1} tokens") as long:
        input_processor.target_token_ids(checkpoint, "i " * (most + 1), field)
    with pytest.raises(errors.InvalidRequest, match=f"The {field} has no tokens that the model writes") as empty:
        input_processor.target_token_ids(checkpoint, " ", field)
    assert (long.value.field, empty.value.field) == (field, field)
    assert len(input_processor.target_token_ids(checkpoint, "i", field)) == 1


@pytest.mark.parametrize("field", ["target", "prefix"])
def test_a_text_of_unknown_tokens_alone_is_refused(tiny_checkpoints: Path, field: str) -> None:
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    with pytest.raises(errors.UnknownCharacters) as refused:
        input_processor.target_token_ids(checkpoint, "🍺  漢字", field)
    sentence = f"tiny-de-en has no token for 🍺 漢字: send a {field} in the language that it writes."
    assert (refused.value.message, refused.value.field) == (sentence, field)
    one, other = (
        input_processor.target_token_ids(checkpoint, "i", field),
        input_processor.target_token_ids(checkpoint, "i 漢字", field),
    )
    assert other == [*one, checkpoint.tokenizers["target"].special.unknown]


def test_a_rollout_counts(tiny_checkpoints: Path) -> None:
    config = checkpoints.read_config(tiny_checkpoints / "tiny-de-en")
    request = attention_query("ich", kinds=("cross",), layers=(0,), heads=(0,), max_values=300 * 40)
    check_attention_size(config, request, 300, 40)
    rolled = attention_query(
        "ich", kinds=("cross",), layers=(0,), heads=(0,), include=("rollout",), max_values=300 * (40 + 340)
    )
    check_attention_size(config, rolled, 300, 40)
    with pytest.raises(errors.InvalidRequest, match=r"would hold 114,600 weights .* leave out the rollout"):
        check_attention_size(config, rolled, 300, 41)
