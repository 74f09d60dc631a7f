"""Words that are one piece of a vocabulary each (`tokenizer.symbols`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.tokenizer import SentencePieceTokenizer
from tests.training.small import pairs
from training.config.run_config import TokenizerConfig, TranslatorConfig
from training.data.tokenizer_training import fit_tokenizer
from training.errors import CannotStart


def test_a_symbol_is_exactly_one_piece() -> None:
    texts = [*pairs(200).sources, *(f"<BT> {text}" for text in pairs(50, seed=1).sources)]
    config = TokenizerConfig(vocab_size=40, symbols="<BT>, <BLANK>")
    tagged = fit_tokenizer(config, texts)
    assert isinstance(tagged, SentencePieceTokenizer)
    tag, blank = tagged.encode("<BT> <BLANK>")
    assert [tagged.piece(tag), tagged.piece(blank)] == ["▁<BT>", "▁<BLANK>"]
    ids = tagged.encode("<BT> a b <BLANK> c")
    assert ids[0] == tag and ids.count(blank) == 1
    assert ids[1:] == tagged.encode("a b <BLANK> c")  # a served text needs no tag
    assert tagged.decode(ids) == "<BT> a b <BLANK> c"
    plain = fit_tokenizer(replace(config, symbols=""), texts)
    assert isinstance(plain, SentencePieceTokenizer)
    assert len(plain.encode("<BT>")) > 1


def test_symbols_that_are_no_words_are_refused() -> None:
    with pytest.raises(CannotStart, match="symbols must be words with commas between"):
        TranslatorConfig(recipe="", tokenizer=TokenizerConfig(symbols="<BT>,"))
    with pytest.raises(CannotStart, match="symbols need kind = sentencepiece"):
        TranslatorConfig(recipe="", tokenizer=TokenizerConfig(kind="word", symbols="<BT>"))
