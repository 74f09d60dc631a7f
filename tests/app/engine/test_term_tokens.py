"""Terms and beginnings as the tokens that a model writes, for every kind of vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.engine.input_processor import prefix_token_ids, required_token_runs
from app.errors import InvalidRequest, TextTooLong, UnknownCharacters
from models.checkpoint import Checkpoint, CheckpointConfig
from models.tokenizer import Tokenizer
from tests.app.engine.output.test_detokenizer import TOKENIZERS

WRITERS = [kind for kind in TOKENIZERS if kind not in ("characters", "words")]


def checkpoint(tokenizer: Tokenizer) -> Checkpoint:
    config = CheckpointConfig(kind="translator", architecture={}, eos=3, suppressed=(0, 1, 2), max_new_tokens=64)
    return Checkpoint(Path("a"), config, {"target": tokenizer})


def holds(ids: list[int], run: tuple[int, ...]) -> bool:
    return any(tuple(ids[at : at + len(run)]) == run for at in range(len(ids)))


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("form", ["hund", "bier", "das haus", "morgen welt"])
def test_wherever_a_term_stands_one_of_its_runs_is_there(kind: str, form: str) -> None:
    writer = TOKENIZERS[kind]
    runs = required_token_runs(checkpoint(writer), (form,))
    assert all(writer.decode(run).strip() == form for run in runs)
    assert len(set(runs)) == len(runs) >= 1
    for text in (form, f"ich {form}", f"wir sehen {form} nicht", f"({form}", f"{form} {form}"):
        ids = writer.encode(text)
        if writer.special.unknown not in ids:
            assert any(holds(ids, run) for run in runs), text
    if kind == "sentencepiece":
        assert any(not writer.piece(run[0]).startswith("▁") for run in runs)
        assert any(writer.piece(run[0]).startswith("▁") for run in runs)


def test_case_is_kept_as_it_is_given() -> None:
    writer = TOKENIZERS["bytes"]
    lower, upper = (required_token_runs(checkpoint(writer), (form,)) for form in ("hund", "Hund"))
    assert {writer.decode(run) for run in lower} == {"hund"}
    assert {writer.decode(run) for run in upper} == {"Hund"}


def test_terms_match_complete_words() -> None:
    words = checkpoint(TOKENIZERS["words"])
    assert required_token_runs(words, ("ich", "möchte ich")) == ((5,), (6, 5))
    assert required_token_runs(words, ("möchte",)) == ((6,),)
    assert required_token_runs(checkpoint(TOKENIZERS["characters"]), ("分a",)) == ((8, 4),)


def test_a_form_that_cannot_be_written_leaves_the_others() -> None:
    words = checkpoint(TOKENIZERS["words"])
    assert required_token_runs(words, ("bier", "ich")) == ((5,),)
    for forms in (("bier",), ("ich bier", "bier")):
        with pytest.raises(UnknownCharacters, match=r"^a cannot write the term '.*': it has no token for bier; leave"):
            required_token_runs(words, forms)
    for nothing in ((), ("",), (" ", "\n")):
        with pytest.raises(InvalidRequest, match="has no tokens that a writes: leave it out") as refused:
            required_token_runs(words, nothing)
        assert refused.value.field == "glossary"


def test_prefix_is_tokenized_completely_or_refused() -> None:
    words = checkpoint(TOKENIZERS["words"])
    assert prefix_token_ids(words, " ich  möchte ") == (5, 6)
    assert prefix_token_ids(words, " \n") == ()
    with pytest.raises(UnknownCharacters, match="a has no token for bier: begin the translation without it"):
        prefix_token_ids(words, "ich bier")
    with pytest.raises(TextTooLong, match="This prefix has 65 tokens; the model takes 64"):
        prefix_token_ids(words, "ich " * 65)
