"""Back-translation: which side is synthetic, noise and tags on it, and draws that depend on the seed alone."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from models.tokenizer import SentencePieceTokenizer
from tests.training.cli.commands import refused
from tests.training.small import pairs
from training.__main__ import main
from training.config.run_config import TokenizerConfig, TranslatorConfig
from training.data.corpus_loading import read_pairs
from training.data.tokenizer_training import fit_tokenizer
from training.errors import CannotStart
from training.translation import file_translation
from training.translation.back_translation import BackwardPair, WordNoise

LINES = [f"{'ab ' * (i % 4)}{'ba ' * (i % 3)}dog" for i in range(40)] + ["", "ab"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return tmp_path


def rows(path: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def backtranslate(model: Path, out: str, *options: str) -> int:
    fixed = ("--out", out, "--device", "cpu", "--precision", "fp32")
    return main(["backtranslate", str(model), "text.txt", *fixed, *options])


def test_noise_drops_blanks_and_moves_words_as_often_and_far_as_it_says() -> None:
    generator = random.Random(0)
    words = [str(i) for i in range(20_000)]
    kept = WordNoise(drop=0.1, blank=0.0, swap=0).words(words, generator)
    assert len(kept) / len(words) == pytest.approx(0.9, abs=0.01)
    assert kept == sorted(kept, key=int)
    blanked = WordNoise(drop=0.0, blank=0.1, swap=0, blank_word="<B>").words(words, generator)
    assert blanked.count("<B>") / len(words) == pytest.approx(0.1, abs=0.01)
    assert all(after in (before, "<B>") for before, after in zip(words, blanked, strict=True))
    moved = WordNoise(drop=0.0, blank=0.0, swap=3).words(words, generator)
    distances = [abs(int(word) - place) for place, word in enumerate(moved)]
    assert sorted(moved, key=int) == words
    assert max(distances) == 3
    assert sum(map(bool, distances)) > len(words) / 2
    assert WordNoise(drop=0.999999).words(["one", "two"], random.Random(1)) in (["one"], ["<BLANK>"])
    assert WordNoise()("", 1, 0) == ""


def test_noise_depends_on_seed_and_line_alone() -> None:
    noise, text = WordNoise(), " ".join(map(str, range(30)))
    assert noise(text, 1, 5) == noise(text, 1, 5)
    assert len({noise(text, seed, line) for seed in (1, 2) for line in (0, 1, 2)}) == 6
    pair = BackwardPair(("de", "en"), noise, "<BT>", 1)
    assert pair(5, "real", text) == {"de": f"<BT> {noise(text, 1, 5)}", "en": "real"}


def test_the_synthetic_side_is_the_source_and_real_text_the_target(
    here: Path, ending_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The teacher translates de → en, so the student en → de."""
    assert backtranslate(ending_model, "bt.jsonl", "--beam", "3") == 0
    assert main(["distil", str(ending_model), "--text", "text.txt", "--out", "d.jsonl", "--beam", "3"]) == 0
    made = rows("bt.jsonl")
    assert 2 < len(made) < len(LINES)
    assert [list(row) for row in made] == [["en", "de"]] * len(made)
    assert [{"de": row["de"], "en": row["en"]} for row in made] == rows("d.jsonl")
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["pairs"] == second["pairs"] == len(made)
    assert first["empty"] == len(LINES) - len(made)
    assert backtranslate(ending_model, "tagged.jsonl", "--beam", "3", "--tag", "<BT>") == 0
    assert [row["en"] for row in rows("tagged.jsonl")] == [f"<BT> {row['en']}" for row in made]
    assert "tokenizer.symbols=<BT>" in capsys.readouterr().err
    assert read_pairs("tagged.jsonl", ("en", "de")).sources[0].startswith("<BT> ")


def test_draws_depend_on_the_seed_and_not_on_chunks_or_processes(
    here: Path, ending_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = ("--sampling", "--temperature", "1.5", "--top-k", "10", "--noise", "drop=0.2", "--seed")
    assert backtranslate(ending_model, "one.jsonl", *sampling, "7") == 0
    monkeypatch.setattr(file_translation, "LEAST_CHUNK_LINES", 3)
    assert backtranslate(ending_model, "two.jsonl", *sampling, "7", "--processes", "2") == 0
    assert backtranslate(ending_model, "other.jsonl", *sampling, "8") == 0
    assert len(rows("one.jsonl")) > 2
    assert rows("one.jsonl") == rows("two.jsonl") != rows("other.jsonl")
    drawn = {row["en"] for row in rows("one.jsonl") if row["de"] == "dog"}
    assert backtranslate(ending_model, "beam.jsonl") == 0
    assert len(drawn) != len({row["en"] for row in rows("beam.jsonl") if row["de"] == "dog"})


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_a_tag_is_exactly_one_piece_sampled_or_not(algorithm: Literal["bpe", "unigram"]) -> None:
    texts = [*pairs(200).sources, *(f"<BT> {text}" for text in pairs(50, seed=1).sources)]
    config = TokenizerConfig(algorithm=algorithm, vocab_size=40, symbols="<BT>, <BLANK>")
    tagged = fit_tokenizer(config, texts, casefold=False)
    assert isinstance(tagged, SentencePieceTokenizer)
    assert list(tagged.symbols) == ["▁<BT>", "▁<BLANK>"]
    tag, blank = tagged.symbols.values()
    ids = tagged.encode("<BT> a b <BLANK> c")
    assert ids[0] == tag and ids.count(blank) == 1
    assert ids[1:] == tagged.encode("a b <BLANK> c")  # a served text needs no tag
    for seed in range(20):
        (drawn,) = tagged.sample(["<BT> a b <BLANK> c"], 0.5, seed, algorithm)
        assert drawn[0] == tag and drawn.count(blank) == 1
        assert tagged.decode(drawn) == "<BT> a b <BLANK> c"
    folded = fit_tokenizer(replace(config, joint=False), texts, casefold=True)
    assert isinstance(folded, SentencePieceTokenizer)
    assert folded.encode("<BT> a")[0] == folded.symbols["▁<bt>"]
    plain = fit_tokenizer(replace(config, symbols=""), texts, casefold=False)
    assert isinstance(plain, SentencePieceTokenizer) and not plain.symbols
    assert len(plain.encode("<BT>")) > 1


def test_symbols_that_are_no_words_are_refused() -> None:
    with pytest.raises(CannotStart, match="symbols must be words with commas between"):
        TranslatorConfig(recipe="", tokenizer=TokenizerConfig(symbols="<BT>,"))
    with pytest.raises(CannotStart, match="symbols need kind = sentencepiece"):
        TranslatorConfig(recipe="", tokenizer=TokenizerConfig(kind="word", symbols="<BT>"))


def test_mistakes_are_one_sentence(here: Path, ending_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def of(*arguments: str) -> str:
        return refused(capsys, "backtranslate", str(ending_model), *arguments, "--device", "cpu")

    message = of("--out", "bt.txt", "--top-k", "0", "--noise", "drop=2", "swop=3", "--tag", "a b", "--seed", "-1")
    for part in (
        "--out must end in .jsonl",
        "--top-k needs --sampling",
        "--noise takes drop=NUMBER, blank=NUMBER, swap=NUMBER, not 'swop=3'",
        "--noise drop must lie in [0, 1), not 2",
        "--tag must be one word",
        "a text to translate is missing",
        "--seed must lie in 0..2^32-1",
    ):
        assert part in message
    assert "without a --beam" in of("text.txt", "--out", "bt.jsonl", "--sampling", "--beam", "4")
    (here / "bt.jsonl.partial").write_text("")
    assert "holds an unfinished output" in of("text.txt", "--out", "bt.jsonl")
    assert "partial.json is missing or damaged" in of("text.txt", "--out", "bt.jsonl", "--resume")
