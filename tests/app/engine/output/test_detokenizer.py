"""The texts of single tokens join to the text of all of them, whatever the tokens, and cost the same each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.output.output_processor import Detokenizer
from models.tokenizer import SpecialTokens, Tokenizer, VocabularyTokenizer
from tests import pieces

CORPUS = ["ich möchte ein bier", "der hund schläft nicht", "wir sehen das haus", "guten  morgen\twelt"] * 3
trained = partial(pieces.trained, CORPUS)
FALLBACK = {"vocab_size": 330, "byte_fallback": True}
PLAIN = {"add_dummy_prefix": False, "remove_extra_whitespaces": False, "normalization_rule_name": "identity"}
SPECIAL = SpecialTokens(0, 1, 2, 3)
TOKENIZERS: dict[str, Tokenizer] = {
    "characters": VocabularyTokenizer("character", ["<p>", "<u>", "<s>", "</s>", *"ab ▁分\ufffd", "<0x41>"], SPECIAL),
    "words": VocabularyTokenizer("word", ["<p>", "<u>", "<s>", "</s>", "", "ich", "möchte", "\ufffd"], SPECIAL),
    "sentencepiece": trained(),
    "bytes": trained(**FALLBACK),
    "bytes, unigram": trained(**{**FALLBACK, "model_type": "unigram"}),
    "bytes, spaces kept": trained(**FALLBACK, **PLAIN),
    "bytes, first space kept out": trained(**FALLBACK, **{**PLAIN, "add_dummy_prefix": True}),
    "bytes, spaces behind": trained(**FALLBACK, treat_whitespace_as_suffix=True),
    "bytes, symbols": trained(**FALLBACK, control_symbols=["<ctl>"], user_defined_symbols=["▁▁", "\ufffd", "<x>"]),
    "a symbol called as a byte": trained(user_defined_symbols=["<0x41>"]),
}


class Counted:
    """A tokenizer that counts decoded tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.decoded = tokenizer, 0
        self.special, self.size, self.piece = tokenizer.special, tokenizer.size, tokenizer.piece

    def decode(self, ids: Iterable[int]) -> str:
        ids = list(ids)
        self.decoded += len(ids)
        return self.tokenizer.decode(ids)

    untrimmed, trims = decode, False


def joined(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    detokenizer = Detokenizer(cast(Tokenizer, tokenizer))
    return [*(detokenizer.feed([token]) for token in ids), detokenizer.finish()]


def byte_ids(tokenizer: Tokenizer) -> list[int]:
    return [i for i in range(tokenizer.size) if tokenizer.piece(i).startswith("<0x")]


def interesting(tokenizer: Tokenizer) -> list[int]:
    """Tokens at which something may go wrong: spaces, symbols, the first and last bytes of characters."""
    names = {
        "▁",
        "▁▁",
        "<ctl>",
        "\ufffd",
        " ",
        "",
        *(f"<0x{byte:02X}>" for byte in b"A \x80\xa0\xbd\xbf\xc3\xe4\xef\xf0"),
    }
    return [i for i in range(tokenizer.size) if i < 4 or tokenizer.piece(i) in names]


@pytest.mark.parametrize("kind", TOKENIZERS)
@settings(max_examples=24, deadline=None)
@given(data=st.data())
def test_deltas_join_to_the_text_of_all_tokens(kind: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[kind]
    every = st.integers(0, tokenizer.size - 1)
    drawn = st.sampled_from(interesting(tokenizer)) | every
    if result := byte_ids(tokenizer):
        drawn |= st.sampled_from(result)
    ids = data.draw(st.lists(drawn, max_size=40))
    assert "".join(joined(tokenizer, ids)) == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", ["bytes", "bytes, spaces kept"])
def test_character_is_shown_with_its_last_byte(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    word = tokenizer.encode("haus")
    ids = [*word, *tokenizer.encode("你🙂"), *word]
    deltas = joined(tokenizer, ids)
    assert "".join(deltas) == tokenizer.decode(ids)
    assert not any("\ufffd" in delta for delta in deltas)
    assert {"你", "🙂"} <= set(deltas)


def test_tokens_without_text_do_not_part_a_character() -> None:
    tokenizer = TOKENIZERS["bytes"]
    first, *others = tokenizer.encode("你")[-3:]
    ids = [first, 2, others[0], 3, others[1]]
    assert joined(tokenizer, ids) == ["", "", "", "", "你", ""]
    assert tokenizer.decode(ids) == "你"


def test_invalid_bytes_are_held_back_for_three_bytes_only() -> None:
    tokenizer = TOKENIZERS["bytes"]
    bytes_of = dict(zip(map(tokenizer.piece, byte_ids(tokenizer)), byte_ids(tokenizer), strict=True))
    beginning = [bytes_of["<0xF0>"], bytes_of["<0x9F>"], bytes_of["<0x99>"]]
    assert joined(tokenizer, beginning) == ["", "", "", "\ufffd" * 3]
    stray = joined(tokenizer, [bytes_of["<0x80>"]] * 50)
    assert stray == ["\ufffd"] * 50 + [""]
    assert joined(tokenizer, [bytes_of["<0xF0>"]] * 3) == ["", "\ufffd", "\ufffd", "\ufffd"]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_cost_of_a_token_does_not_grow_with_the_text(kind: str) -> None:
    def decoded(count: int) -> int:
        counted = Counted(TOKENIZERS[kind])
        worst = [*byte_ids(counted.tokenizer), *range(counted.tokenizer.size)]
        joined(counted, (worst * (count // len(worst) + 1))[:count])
        return counted.decoded

    assert decoded(4000) - decoded(2000) <= 5 * 2000


def test_a_token_that_does_not_exist_is_refused() -> None:
    with pytest.raises(IndexError):
        Detokenizer(TOKENIZERS["bytes"]).feed([10_000])
