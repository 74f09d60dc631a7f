"""Language tokens of SentencePiece vocabularies: one at the start of a text is a token, any other is text."""

from __future__ import annotations

import pytest

from models.tokenizer import SentencePieceTokenizer
from training.config.run_config import TokenizerConfig
from training.data.tokenizer_training import fit_tokenizer, sentencepiece_tokenizer

TEXTS = [f"the dog {number} sees >>xx<< a cat" for number in range(200)]
CONFIG = TokenizerConfig(kind="sentencepiece", vocab_size=80)


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    return sentencepiece_tokenizer(TEXTS, CONFIG, targets=["de", "pt-BR"])


def test_each_target_has_one_token_behind_the_special_ones(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.languages == {">>de<<": 4, ">>pt-BR<<": 5}
    assert fit_tokenizer(CONFIG, TEXTS).kind == "sentencepiece"


def test_only_a_token_at_the_start_of_a_text_is_one(tokenizer: SentencePieceTokenizer) -> None:
    plain = tokenizer.encode("the dog")
    assert tokenizer.encode(">>de<< the dog") == tokenizer.encode(">>de<<the dog") == [4, *plain]
    for text in ("the >>de<< dog", " >>de<< the dog", "the dog>>de<<"):
        assert {4, 5}.isdisjoint(tokenizer.encode(text))
    inside = tokenizer.encode(">>xx<< the dog")  # no language of this vocabulary
    assert tokenizer.decode(inside) == ">>xx<< the dog"


def test_pieces_agree_with_encode(tokenizer: SentencePieceTokenizer) -> None:
    text = ">>pt-BR<< the dog sees"
    pieces = tokenizer.pieces(text)
    assert [piece.id for piece in pieces] == tokenizer.encode(text)
    assert [text[piece.start : piece.end] for piece in pieces][:2] == [">>pt-BR<<", "the"]
    assert tokenizer.encode_all([text, "the dog"]) == [tokenizer.encode(text), tokenizer.encode("the dog")]


def test_language_tokens_write_nothing(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.decode([4, *tokenizer.encode("the dog"), 5]) == "the dog"
