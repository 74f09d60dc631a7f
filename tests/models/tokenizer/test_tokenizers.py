"""Tokenizers: round trips, offsets in code points, unknown parts, files."""

from __future__ import annotations

import itertools
import json
import unicodedata
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.tokenizer import Piece, SpecialTokens, Tokenizer, VocabularyTokenizer, read_tokenizer
from tests import pieces

CORPUS = ["the cat sat on the mat", "a dog ran", "the dog and the cat are fine", "das ist gut", "两只猫", "café"]
SPECIAL = SpecialTokens(pad=0, unknown=1, bos=2, eos=3)
WORDS = VocabularyTokenizer("word", ["<pad>", "<unk>", "<s>", "</s>", "the", "cat", "sat", "café", "🙂"], SPECIAL)
CHARACTERS = VocabularyTokenizer("character", ["\n", " ", "a", "b", "e", "猫", "🙂", "\u0301"], SpecialTokens(pad=None))

trained = partial(pieces.trained, CORPUS * 3, character_coverage=1.0, normalization_rule_name="nmt_nfkc")
SUBWORDS = trained()
BYTES = trained(vocab_size=330, byte_fallback=True)


def parts(tokenizer: Tokenizer, text: str) -> list[str]:
    return [text[p.start : p.end] for p in tokenizer.pieces(text)]


# Characters ---------------------------------------------------------------------------------------------


def test_a_character_is_a_code_point() -> None:
    assert CHARACTERS.pieces("a🙂e\u0301\n猫") == [
        Piece(2, "a", 0, 1),
        Piece(6, "🙂", 1, 2),
        Piece(4, "e", 2, 3),
        Piece(7, "\u0301", 3, 4),
        Piece(0, "\n", 4, 5),
        Piece(5, "猫", 5, 6),
    ]


COMPOSED = VocabularyTokenizer("character", ["<unk>", *"\n aeéạế한ק"], SpecialTokens(pad=None, unknown=0))
DECOMPOSED = VocabularyTokenizer(
    "character",
    ["<unk>", *sorted(set(unicodedata.normalize("NFD", "\n aeéạế한ק")))],
    SpecialTokens(pad=None, unknown=0),
)


@pytest.mark.parametrize("tokenizer", [COMPOSED, DECOMPOSED])
@given(text=st.text(alphabet="\n aeéạế한ק", max_size=40))
def test_canonically_equivalent_texts_are_the_same_tokens(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert 0 not in ids
    for form in ("NFC", "NFD"):
        spelt = unicodedata.normalize(form, text)
        assert tokenizer.encode(spelt) == ids
        assert tokenizer.unknown(spelt) == []
        ends = [0, *(piece.end for piece in tokenizer.pieces(spelt))]
        assert ends == sorted(ends)
        assert ends[-1] == len(spelt)


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_line_ends_of_other_systems_are_a_line_feed(line_end: str) -> None:
    text = f"a{line_end}{line_end}é"
    assert COMPOSED.encode(text) == COMPOSED.encode("a\n\né")
    assert parts(COMPOSED, text) == ["a", line_end, line_end, "é"]
    with_return = VocabularyTokenizer("character", ["\n", "\r", "a"], SpecialTokens(pad=None))
    assert with_return.encode("a\ra\r\n") == [2, 1, 2, 0]


def test_an_unknown_character_is_named_as_it_was_written() -> None:
    assert COMPOSED.unknown("ae\u0308a\u0323") == ["e\u0308"]


@given(st.text(alphabet="\n abe猫🙂\u0301", max_size=40))
def test_characters_come_back(text: str) -> None:
    assert CHARACTERS.decode(CHARACTERS.encode(text)) == text
    assert parts(CHARACTERS, text) == list(text)
    assert CHARACTERS.unknown(text) == []


def test_a_character_without_unknown_token_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="does not hold 'z'"):
        CHARACTERS.encode("abz")
    assert CHARACTERS.unknown("zaxz") == ["z", "x"]


def test_without_pad_the_id_0_is_text() -> None:
    assert CHARACTERS.decode([0, 2]) == "\na"


# Words --------------------------------------------------------------------------------------------------


def test_words_have_offsets_between_any_white_space() -> None:
    text = "  the\t\u3000cat🙂  🙂 café\n"
    assert WORDS.pieces(text) == [
        Piece(4, "the", 2, 5),
        Piece(1, "<unk>", 7, 11),
        Piece(8, "🙂", 13, 14),
        Piece(7, "café", 15, 19),
    ]
    assert parts(WORDS, text) == ["the", "cat🙂", "🙂", "café"]
    assert WORDS.unknown("dog the dog ran") == ["dog", "ran"]


def test_special_names_in_a_text_are_no_special_tokens() -> None:
    assert WORDS.encode("<pad> </s> the <unk>") == [1, 1, 4, 1]
    assert WORDS.unknown("</s>") == ["</s>"]


def test_decode_leaves_special_tokens_out() -> None:
    assert WORDS.decode([2, 4, 0, 5, 1, 3, 0]) == "the cat"
    assert SUBWORDS.decode([2, *SUBWORDS.encode("the cat"), 1, 3, 0, 0]) == "the cat"
    assert WORDS.decode([]) == CHARACTERS.decode([]) == SUBWORDS.decode([]) == ""


@given(st.lists(st.sampled_from(["the", "cat", "sat", "café", "🙂"]), max_size=8), st.sampled_from([" ", "\n", "  "]))
def test_known_words_come_back(words: list[str], space: str) -> None:
    text = space.join(words)
    assert WORDS.decode(WORDS.encode(text)) == " ".join(words)
    assert parts(WORDS, text) == words


@given(st.text(max_size=40))
def test_words_equal_str_split(text: str) -> None:
    assert parts(WORDS, text) == text.split()
    assert len(WORDS.encode(text)) == len(text.split())
    assert WORDS.unknown(text) == list(dict.fromkeys(w for w in text.split() if w not in WORDS.vocabulary[4:]))


def test_a_vocabulary_is_checked() -> None:
    with pytest.raises(ValueError, match="twice"):
        VocabularyTokenizer("word", ["a", "b", "a"], SpecialTokens(pad=None))
    with pytest.raises(ValueError, match="special token must be one of the vocabulary"):
        VocabularyTokenizer("word", ["a", "b"], SpecialTokens(pad=None, unknown=2))
    with pytest.raises(ValueError, match="not 'syllable'"):
        VocabularyTokenizer("syllable", ["a"], SpecialTokens(pad=None))


# SentencePiece ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the cat", ["the", "cat"]),
        ("  the   cat ", ["the", "cat"]),
        ("the ﬁne cat", ["the", "ﬁne", "cat"]),  # one ligature becomes two letters
        ("ｔｈｅ cat", ["ｔｈｅ", "cat"]),
        ("the\u3000cat", ["the", "cat"]),
        ("the🙂cat", ["the🙂cat"]),
        ("\u200bcat", ["cat"]),  # normalised to nothing
        ("the cafe\u0301 cat", ["the", "cafe\u0301", "cat"]),  # two code points become one
    ],
)
def test_pieces_cover_the_text(text: str, expected: list[str]) -> None:
    """Whatever normalisation does, pieces that touch make up the words of the text as it was given."""
    for tokenizer in (SUBWORDS, BYTES):
        spans: list[tuple[int, int]] = []
        for piece in tokenizer.pieces(text):
            if spans and piece.start == spans[-1][1]:
                spans[-1] = (spans[-1][0], piece.end)
            elif piece.end > piece.start:
                spans.append((piece.start, piece.end))
        assert [text[start:end] for start, end in spans] == expected


def test_offsets_are_code_points_exactly() -> None:
    assert [(p.piece, p.start, p.end) for p in SUBWORDS.pieces("🙂 the  🙂🙂s")] == [
        ("▁", 0, 0),
        ("🙂", 0, 1),
        ("▁the", 2, 5),
        ("▁", 7, 7),
        ("🙂🙂", 7, 9),
        ("s", 9, 10),
    ]
    # the bytes of one character: the last of them carries it
    result = [(p.piece, p.start, p.end) for p in BYTES.pieces("the🙂")]
    assert result == [
        ("▁the", 0, 3),
        ("<0xF0>", 3, 3),
        ("<0x9F>", 3, 3),
        ("<0x99>", 3, 3),
        ("<0x82>", 3, 4),
    ]


def test_unknown_parts_of_sentencepiece() -> None:
    assert SUBWORDS.unknown("the 🙂 cat 🙂🙂 🙂 ☃") == ["🙂", "🙂🙂", "☃"]
    assert SUBWORDS.unknown("the cat") == []
    assert BYTES.unknown("the 🙂 cat") == []


@pytest.mark.parametrize("text", CORPUS)
def test_a_corpus_comes_back(text: str) -> None:
    assert SUBWORDS.decode(SUBWORDS.encode(text)) == text


@given(st.text(alphabet="thecadog 猫é🙂\u0301ﬁ\u3000\t½", max_size=30))
def test_sentencepiece_offsets_hold_for_any_text(text: str) -> None:
    for tokenizer in (SUBWORDS, BYTES):
        pieces = tokenizer.pieces(text)
        assert [p.id for p in pieces] == tokenizer.encode(text)
        assert all(a.end <= b.start for a, b in itertools.pairwise(pieces))
        assert all(0 <= p.start <= p.end <= len(text) for p in pieces)
        assert all(tokenizer.piece(p.id) == p.piece for p in pieces if p.id != 1)
        covered = "".join(text[p.start : p.end] for p in pieces)
        assert "".join(covered.split()) == "".join(text.split()), "nothing but white space may be left out"


@given(st.text(max_size=30))
@settings(max_examples=24)
def test_byte_fallback_encodes_any_text(text: str) -> None:
    """With byte fallback, a text that normalisation leaves alone survives the round trip."""
    once = BYTES.decode(BYTES.encode(text))
    assert BYTES.decode(BYTES.encode(once)) == once


def test_special_ids_of_sentencepiece() -> None:
    assert SUBWORDS.special == SPECIAL
    assert trained(pad_id=-1, unk_id=0, bos_id=-1, eos_id=1).special == SpecialTokens(
        pad=None, unknown=0, bos=None, eos=1
    )
    assert SPECIAL.ids == {0, 1, 2, 3}
    assert SpecialTokens(pad=None).ids == frozenset()


# Files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokenizer", [WORDS, CHARACTERS, SUBWORDS, BYTES])
def test_write_and_read(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.write(tmp_path / "file")
    again = read_tokenizer(tokenizer.kind, tmp_path / "file")
    assert (again.kind, again.size, again.special) == (tokenizer.kind, tokenizer.size, tokenizer.special)
    assert [again.piece(i) for i in range(again.size)] == [tokenizer.piece(i) for i in range(tokenizer.size)]
    assert again.pieces("a") == tokenizer.pieces("a")
    again.write(tmp_path / "again")
    assert (tmp_path / "file").read_bytes() == (tmp_path / "again").read_bytes()


def test_a_vocabulary_file_is_readable_by_people(tmp_path: Path) -> None:
    CHARACTERS.write(tmp_path / "file")
    text = (tmp_path / "file").read_text(encoding="utf-8")
    assert "猫" in text
    assert json.loads(text)["special"] == {"pad": None, "unknown": None, "bos": None, "eos": None}


def test_an_unknown_kind_and_a_broken_model(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"neither JSON nor a model")
    with pytest.raises(ValueError, match=r"'wordpiece' is not one of character, marian, sentencepiece, word\."):
        read_tokenizer("wordpiece", tmp_path / "file")
    with pytest.raises(ValueError, match="Expecting value"):
        read_tokenizer("word", tmp_path / "file")
    with pytest.raises(RuntimeError):
        read_tokenizer("sentencepiece", tmp_path / "file")


@pytest.mark.parametrize("tokenizer", [WORDS, CHARACTERS, SUBWORDS])
def test_ids_outside_the_vocabulary(tokenizer: Tokenizer) -> None:
    with pytest.raises(IndexError):
        tokenizer.decode([10**6])
    with pytest.raises(IndexError):
        tokenizer.piece(10**6)
    with pytest.raises(IndexError):
        tokenizer.decode([-1])
    with pytest.raises(IndexError):
        tokenizer.piece(-1)
