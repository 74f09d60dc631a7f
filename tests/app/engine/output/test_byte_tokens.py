"""Characters that a vocabulary lacks are cut into bytes: all of one character's are of its word."""

from __future__ import annotations

import pytest

from app.engine.output import token_views
from app.engine.output.token_views import with_word_numbers
from models.tokenizer import SentencePieceTokenizer
from tests.pieces import trained


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    return trained(["das haus am see", "ein haus"] * 3, byte_fallback=True, vocab_size=330)


@pytest.mark.parametrize(
    ("text", "shown", "words"),
    [
        ("ein hüпus am", "ein h • ü • п us am", [0, 1, 1, 1, 1, 1, 1, 2]),
        ("üa", "• • ü a", [None, 0, 0, 0]),
        ("am ☃ see", "am • • • ☃ see", [0, None, 1, 1, 1, 2]),
        ("我爱", "• • • 我 • • 爱", [None, 0, 0, 0, 1, 1, 1]),
        ("am👍🏽", "am • • • 👍 • • • 🏽", [0, 1, 1, 1, 1, 1, 1, 1, 1]),
    ],
)
def test_all_bytes_of_a_character_belong_to_the_word_it_stands_in(
    tokenizer: SentencePieceTokenizer, text: str, shown: str, words: list[int | None]
) -> None:
    given = token_views.text_tokens(tokenizer, text)
    for tokens in (given, token_views.decoded_tokens(tokenizer, [token.id for token in given])):
        results = with_word_numbers(tokens, text)
        assert [result.text or "•" for result in results] == shown.split()  # a space before bytes is a token of its own
        assert [result.word for result in results] == words
        assert [result.word for result in results if result.piece == "▁"] in ([], [None])


def test_invalid_bytes_belong_to_the_word_of_their_replacement(tokenizer: SentencePieceTokenizer) -> None:
    pieces = {tokenizer.piece(i): i for i in range(tokenizer.size)}
    ids = [pieces["▁am"], pieces["<0xE2>"], pieces["<0x98>"], pieces["us"]]
    text = tokenizer.decode(ids)
    results = with_word_numbers(token_views.decoded_tokens(tokenizer, ids), text)
    assert "\N{REPLACEMENT CHARACTER}" in text
    assert [result.word for result in results] == [0, 1, 1, 1], text
