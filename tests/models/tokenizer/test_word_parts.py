"""Which tokens are parts of words, of tokenizers of every kind."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from models.decoding.decoder import decode
from models.interface import Prompt
from models.tokenizer import MarianTokenizer, SentencePieceTokenizer, SpecialTokens, VocabularyTokenizer
from models.tokenizer.word_parts import WordParts, in_word, word_parts
from tests import pieces
from tests.models.decoding.decoders import RULES, options
from tests.models.scripted import Scripted

CORPUS = ["the cat sat on the mat", "a dog ran", "the dog and the cat are fine", "category", "两只猫坐在垫子上", "café"]
trained = partial(pieces.trained, CORPUS * 3, character_coverage=1.0)
SUBWORDS, BYTES = trained(), trained(vocab_size=330, byte_fallback=True)


def flags(tokenizer: SentencePieceTokenizer | VocabularyTokenizer, *names: str) -> list[tuple[bool, bool]]:
    of = {tokenizer.piece(token): token for token in range(tokenizer.size)}
    result = word_parts(tokenizer)
    return [(bool(result.continues[of[name]]), bool(result.open[of[name]])) for name in names]


def test_pieces_begin_words_with_their_sign_for_a_space() -> None:
    assert flags(SUBWORDS, "▁the", "▁cat", "at", "▁", "s") == [
        *[(False, True)] * 2,
        (True, True),
        (False, False),
        (True, True),
    ]
    assert flags(SUBWORDS, "<unk>", "</s>", "猫", "é") == [(False, False), (False, False), (False, False), (True, True)]


def test_bytes_are_parts_of_words_unless_they_begin_a_character_of_a_script_without_spaces() -> None:
    # of é (C3 A9), of 中 (E4 B8 AD), a letter, a full stop
    names = ("<0xC3>", "<0xA9>", "<0xE4>", "<0x61>", "<0x2E>")
    assert flags(BYTES, *names) == [(True, True), (True, True), (False, True), (True, True), (False, False)]


def test_character_and_word_tokens_have_one_part() -> None:
    special = SpecialTokens(pad=0, unknown=1)
    characters = VocabularyTokenizer("character", ["<pad>", "<unk>", "a", " ", "猫", "7", ".", "\u0301", "▁"], special)
    both, none = (True, True), (False, False)
    assert flags(characters, "<pad>", "a", " ", "猫", "7", ".", "\u0301") == [none, both, none, none, both, none, both]
    words = VocabularyTokenizer("word", ["<pad>", "<unk>", "the", "cat"], special)
    assert flags(words, "the", "cat") == [none, none]


@pytest.mark.parametrize("text", "aéß7Яعक்ा")
def test_letters_digits_and_marks_make_words(text: str) -> None:
    assert in_word(text)


@pytest.mark.parametrize("text", [*"猫ねコ한ไကខ々", "𠀀", " ", "▁", "-", "'", "_", "🙂", "、"])
def test_other_characters_stand_for_themselves(text: str) -> None:
    assert not in_word(text)


def test_marians_vocabulary_counts() -> None:
    vocabulary = ["</s>", "<unk>", "▁cat", "egory", "▁猫", ">>deu<<", "<pad>"]
    tokenizer = MarianTokenizer(vocabulary, SpecialTokens(6, 1, None, 0), SUBWORDS.model)
    result = word_parts(tokenizer)
    assert result.continues.tolist() == [False, False, False, True, False, False, False]
    assert result.open.tolist() == [False, False, True, True, False, False, False]


def test_pieces_inside_a_word_do_not_match() -> None:
    """The whole way: a network that would write "category" writes "cat" where a cat is required."""
    tokenizer = VocabularyTokenizer(
        "word", ["<pad>", "<s>", "</s>", "▁cat", "egory", "s"], SpecialTokens(0, None, 1, 2)
    )
    marian = WordParts(*np.array([[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]], dtype=bool))
    table = {(1,): [0, 0, 0, 9, 0, 0], (1, 3): [0, 0, 6, 0, 9, 0], (1, 3, 4): [0, 0, 9, 0, 0, 0]}
    chosen = options(beam_size=4, length_penalty=0.0, required=(((3,),),))
    result = [
        decode(Scripted(6, table=table), RULES, [Prompt((), (1,))], chosen, parts=parts)[0][0].tokens
        for parts in (word_parts(tokenizer), marian)
    ]
    assert result == [(3, 4), (3,)]
