"""Fitted tokenizers: which ids mean what, and what happens to odd sizes and odd corpora."""

from __future__ import annotations

import io
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
import sentencepiece

from models.tokenizer import SpecialTokens, Tokenizer
from models.tokenizer.vocabulary_tokenizer import VocabularyTokenizer
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


def test_a_vocabulary_shrinks_to_what_the_corpus_can_fill() -> None:
    source, _ = fitted(vocab_size=50_000, joint=True)
    assert 40 < source.size < 200
    assert fitted(vocab_size=40, joint=True)[0].size == 40


@pytest.mark.parametrize("size", [1, 2, 3, 4, 10])
def test_a_vocabulary_too_small_for_the_characters(size: int) -> None:
    with pytest.raises(TrainingError, match=f"^A vocabulary of {size} pieces? cannot hold every character") as excinfo:
        fitted(vocab_size=size)
    assert "INTERNAL" not in str(excinfo.value)


@pytest.mark.parametrize("size", [-5, 0])
def test_a_vocabulary_of_no_pieces_is_refused(size: int) -> None:
    with pytest.raises(TrainingError, match=f"vocab_size must be at least 1, not {size}"):
        fitted(vocab_size=size)


@pytest.mark.parametrize("kind", ["sentencepiece", "word", "character"])
def test_fitting_is_deterministic(kind: str, tmp_path: Path) -> None:
    options = {"kind": kind, "vocab_size": 50}
    assert stored(fitted(**options)[0], tmp_path) == stored(fitted(**options)[0], tmp_path)


def test_vocabulary_is_the_file_that_earlier_versions_made(tmp_path: Path) -> None:
    """Byte for byte: a run is resumed only with the vocabulary that it began with."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TARGETS),
        model_writer=model,
        vocab_size=40,
        model_type="bpe",
        character_coverage=1.0,
        normalization_rule_name="nmt_nfkc",
        max_sentence_length=1 << 20,
        num_threads=1,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
        control_symbols=[],
        user_defined_symbols=[],
    )
    assert stored(fitted(vocab_size=40, joint=False)[1], tmp_path) == model.getvalue()


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
    assert without.special.ids == frozenset()
    with pytest.raises(ValueError, match="'x'"):
        without.encode("hex")


def test_characters_beyond_the_first_plane_are_one_token() -> None:
    assert character_tokenizer("🎵歌🎵", unknown=False).encode("歌🎵") == [0, 1]


def sentences(words: list[str], count: int, length: int, joined_by: str) -> list[str]:
    generator = random.Random(1)
    return [joined_by.join(generator.choices(words, k=length)) for _ in range(count)]


CHINESE_WORDS = [
    "我们",
    "爸爸",
    "厨房",
    "奶酪",
    "昨天",
    "这个",
    "男孩",
    "必须",
    "吃",
    "找",
    "看见",
    "自行车",
    "白色",
    "花",
]
ENGLISH_WORDS = ["we", "father", "kitchen", "cheese", "yesterday", "this", "boy", "must", "eat", "seek", "see", "bike"]
CHINESE = sentences(CHINESE_WORDS, 500, 6, "")


@pytest.mark.parametrize("joint", [True, False])
def test_small_corpus_without_spaces_has_pieces_that_recur(joint: bool) -> None:
    english = sentences(ENGLISH_WORDS, 500, 6, " ")
    config = TokenizerConfig(vocab_size=4000, joint=joint)
    unlimited = fit_translator_tokenizers(replace(config, characters_per_piece=0), english, CHINESE)["target"]
    limited = fit_translator_tokenizers(config, english, CHINESE)["target"]
    lengths = [sum(map(len, tokenizer.encode_all(CHINESE))) / 500 for tokenizer in (unlimited, limited)]
    assert lengths[0] < 3  # whole sentences
    assert lengths[1] > 4.5  # of 6 words
    assert limited.unknown("".join(CHINESE)) == []


def test_corpus_with_spaces_and_large_corpus_keep_their_vocabulary() -> None:
    english = sentences([f"word{i}" for i in range(300)], 500, 6, " ")
    config = TokenizerConfig(vocab_size=300)
    unlimited = replace(config, characters_per_piece=0)
    for texts in (english, CHINESE * 10):
        ids = [
            fit_translator_tokenizers(each, texts, texts)["target"].encode_all(texts) for each in (config, unlimited)
        ]
        assert ids[0] == ids[1]


LINE = "The Time-Traveller (for so it will\nbe convenient, né 1895) …was"


def test_letters_only_are_those_of_the_textbook(tmp_path: Path) -> None:
    """Runs of anything but letters of English are one space; offsets are those of the text as it was given."""
    plain = re.sub("[^A-Za-z]+", " ", LINE).lower()
    tokenizer = character_tokenizer(plain, unknown=True, letters_only=True)
    tokenizer.write(tmp_path / "target.json")
    for same in (tokenizer, VocabularyTokenizer.read(tmp_path / "target.json")):
        assert same.decode(same.encode(LINE)) == plain
        assert same.encode(LINE) == same.encode(plain)
        assert same.unknown(LINE + "xyz?!") == ["x", "y", "z"]
        pieces = same.pieces(LINE)
        assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
        assert (pieces[0].start, pieces[-1].end) == (0, len(LINE))
