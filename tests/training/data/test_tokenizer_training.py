"""Fitted tokenizers: which ids mean what, and what happens to odd sizes and odd corpora."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.tokenizer import SpecialTokens, Tokenizer
from training.config.run_config import TokenizerConfig
from training.data.tokenizer_training import character_tokenizer, fit_translator_tokenizers, word_tokenizer
from training.errors import TrainingError

SOURCES = ["Ein Bier, bitte!", "zwei Biere bitte", "Guten Tag"] * 20
TARGETS = ["A beer, please!", "two beers please", "Good day"] * 20
SPECIAL = SpecialTokens(pad=0, unknown=1, bos=2, eos=3)


def fitted(**options: object) -> tuple[Tokenizer, Tokenizer]:
    result = fit_translator_tokenizers(TokenizerConfig(**options), SOURCES, TARGETS)  # type: ignore[arg-type]
    return result["source"], result["target"]


def stored(tokenizer: Tokenizer, folder: Path) -> bytes:
    tokenizer.write(folder / "tokenizer")
    return (folder / "tokenizer").read_bytes()


@pytest.mark.parametrize("kind", ["sentencepiece", "word", "character"])
@pytest.mark.parametrize("joint", [True, False])
def test_special_ids_are_the_same_in_every_vocabulary(kind: str, joint: bool) -> None:
    for tokenizer in fitted(kind=kind, vocab_size=60, joint=joint):
        assert tokenizer.special == SPECIAL
        assert not set(tokenizer.encode("Ein Bier, bitte! A beer, please!")) & {0, 2, 3}


@pytest.mark.parametrize("kind", ["sentencepiece", "word", "character"])
def test_tokenizers_round_trip_text(kind: str) -> None:
    source, target = fitted(kind=kind, vocab_size=60, joint=False)
    assert source.decode([2, *source.encode("Ein Bier, bitte!"), 3, 0]) == "Ein Bier, bitte!"
    assert target.decode(target.encode("two beers please")) == "two beers please"
    assert source.unknown("Ein Bier, bitte!") == []


def test_joint_is_one_vocabulary_and_separate_are_two() -> None:
    source, target = fitted(vocab_size=60, joint=True)
    assert source is target
    assert source.unknown("Bier please") == []
    source, target = fitted(vocab_size=60, joint=False)
    assert source.size <= 60
    assert source.unknown("Tagy") == ["y"]  # of the targets alone
    assert target.unknown("day Z") == ["Z"]


def test_casefolded_sources_read_capitals_alike() -> None:
    source, target = fitted(vocab_size=60, joint=False, casefold_source=True)
    assert source.encode("EIN Bier") == source.encode("ein bier")
    assert target.encode("A beer") != target.encode("a beer")
    cased, _ = fitted(vocab_size=60, joint=False)
    assert cased.encode("Bier") != cased.encode("bier")


def test_a_vocabulary_shrinks_to_what_the_corpus_can_fill() -> None:
    source, _ = fitted(vocab_size=50_000, joint=True)
    assert 40 < source.size < 200
    assert fitted(vocab_size=40, joint=True)[0].size == 40


def test_a_unigram_vocabulary_shrinks_too_and_cuts_otherwise() -> None:
    assert fitted(vocab_size=30, algorithm="unigram")[0].size == 30
    unigram, bpe = (fitted(vocab_size=34, algorithm=algorithm)[0] for algorithm in ("unigram", "bpe"))
    assert 30 < fitted(vocab_size=50_000, algorithm="unigram")[0].size < 200
    assert unigram.decode(unigram.encode("zwei Biere bitte")) == "zwei Biere bitte"
    names = [{tokenizer.piece(i) for i in range(tokenizer.size)} for tokenizer in (unigram, bpe)]
    assert names[0] != names[1]


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
@pytest.mark.parametrize("size", [-5, 0, 1, 2, 3, 4, 10])
def test_a_vocabulary_too_small_for_the_characters(size: int, algorithm: str) -> None:
    with pytest.raises(TrainingError, match=f"^A vocabulary of {size} pieces? cannot hold every character") as excinfo:
        fitted(vocab_size=size, algorithm=algorithm)
    assert "INTERNAL" not in str(excinfo.value)


@pytest.mark.parametrize("kind", ["sentencepiece", "word", "character"])
def test_fitting_is_deterministic(kind: str, tmp_path: Path) -> None:
    options = {"kind": kind, "vocab_size": 50}
    assert stored(fitted(**options)[0], tmp_path) == stored(fitted(**options)[0], tmp_path)


def test_words_come_behind_the_specials_most_frequent_first() -> None:
    config = TokenizerConfig(kind="word", pad_piece="P", bos_piece="S", eos_piece="E")
    tokenizer = word_tokenizer(config, ["b a a", "c  a b\u2003a"])
    assert tokenizer.vocabulary == ("P", "<unk>", "S", "E", "a", "b", "c")
    assert tokenizer.encode("c b zebra") == [6, 5, 1]
    assert tokenizer.special == SPECIAL


@pytest.mark.parametrize("word", ["P", "S", "E", "<unk>"])
def test_a_word_of_the_corpus_must_not_be_a_special_token(word: str) -> None:
    config = TokenizerConfig(kind="word", pad_piece="P", bos_piece="S", eos_piece="E")
    with pytest.raises(TrainingError, match=f"uses '{word}' as a word"):
        word_tokenizer(config, [f"I {word} you"])


def test_characters_with_and_without_an_unknown_token() -> None:
    with_one = character_tokenizer("hello\n", unknown=True)
    assert with_one.vocabulary == ("<unk>", "\n", "e", "h", "l", "o")
    assert with_one.encode("hex") == [3, 2, 0]
    without = character_tokenizer("hello\n", unknown=False)
    assert without.vocabulary == ("\n", "e", "h", "l", "o")
    assert without.special.ids() == frozenset()
    with pytest.raises(ValueError, match="'x'"):
        without.encode("hex")


def test_characters_beyond_the_first_plane_are_one_token() -> None:
    assert character_tokenizer("🎵歌🎵", unknown=False).encode("歌🎵") == [0, 1]
