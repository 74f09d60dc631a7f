"""Corpora whose texts lie in files: the same pairs, reports, batches and weights as in memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.training.runs import Killed, assert_same_run, kill_at
from tests.training.small import CPU, pairs, translator
from training.config.run_config import CleaningConfig, LoopConfig, TokenizerConfig
from training.data import run_corpora, sentence_pairs
from training.data.cleaning import repeated_pairs
from training.data.run_corpora import read_run_corpora
from training.data.sentence_pairs import Pairs
from training.data.stored_corpus import TextArray, TextWriter, blocks, locked
from training.data.tokenizer_training import fit_translator_tokenizers, tokenizer_digest
from training.training_run import TrainingRun
from training.translator_run import train_translator


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def large(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """From 50 pairs on a corpus is large."""
    monkeypatch.setattr(sentence_pairs, "LARGE_PAIRS", 50)
    monkeypatch.setattr(sentence_pairs, "WRITTEN_PAIRS", 7)
    return cache


TEXTS = [f"Zeile {i} " + "äß字😀"[i % 4] * (i % 5) for i in range(101)] + ["", "last"]


@pytest.mark.usefixtures("cache")
def test_a_text_array_is_a_sequence_of_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.data.stored_corpus.BLOCK_TEXTS", 10)
    writer = TextWriter()
    writer.extend(TEXTS[:40])
    writer.extend(iter(TEXTS[40:]))
    texts = writer.finish()
    assert len(texts) == 103
    assert list(texts) == TEXTS
    assert texts == TEXTS
    assert texts != [*TEXTS[:-1], "other"]
    assert [texts[0], texts[-1], texts[57]] == [TEXTS[0], "last", TEXTS[57]]
    assert texts[90:300:4] == TEXTS[90:300:4]
    assert [text for block in blocks(texts, 8) for text in block] == TEXTS
    some = texts.select([0, 3, 57, 101, 102])
    assert isinstance(some, TextArray)
    assert list(some) == [TEXTS[i] for i in (0, 3, 57, 101, 102)]
    with pytest.raises(IndexError):
        texts[103]


def write(path: Path, given: Pairs) -> Path:
    path.write_text("".join(f"{s}\t{t}\n" for s, t in zip(given.sources, given.targets, strict=True)))
    return path


def corpora(folder: Path) -> dict[str, Any]:
    """Two files with duplicates, empty sides, and pairs of the test set."""
    one, two = pairs(120), pairs(90, seed=1)
    one = Pairs([*one.sources, *one.sources[:30], ""], [*one.targets, *one.targets[:30], "x"])
    test = Pairs(one.sources[5:9], one.targets[5:9])
    files = [write(folder / f"{name}.tsv", given) for name, given in (("one", one), ("two", two), ("test", test))]
    return {"train": [str(files[0]), str(files[1])], "test": str(files[2])}


def test_a_large_corpus_is_cleaned_and_held_out_as_a_small_one(tmp_path: Path, large: Path) -> None:
    data = corpora(tmp_path)
    spilled = read_run_corpora(data, ("aa", "bb"), CleaningConfig(), seed=3)
    assert isinstance(spilled[0].sources, TextArray)
    assert not list(large.glob("*.part*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentence_pairs, "LARGE_PAIRS", 10**6)
        inside = read_run_corpora(data, ("aa", "bb"), CleaningConfig(), seed=3)
    for large_part, small_part in zip(spilled, inside, strict=True):
        assert large_part is not None and small_part is not None
        assert list(large_part.sources) == small_part.sources
        assert list(large_part.targets) == small_part.targets
        assert [large_part.place(i) for i in range(len(large_part))] == [
            small_part.place(i) for i in range(len(small_part))
        ]
        assert large_part.reported() == small_part.reported()
    dropped = spilled[0].reported().dropped
    assert dropped["exact duplicate"].count >= 30
    assert dropped["in the test set"].count >= 4


def test_equal_hashes_of_other_texts_drop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Pairs(list("abcabdd"), list("xyzxyxx"))
    expected = [False, False, False, True, True, False, True]
    assert repeated_pairs(given).tolist() == expected
    monkeypatch.setattr("training.data.stored_corpus.hash", lambda _: 7, raising=False)
    assert repeated_pairs(given).tolist() == expected
    assert repeated_pairs(Pairs([], [])).tolist() == []


def test_a_prepared_corpus_is_found_again_unless_something_differs(
    tmp_path: Path, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_corpora, "LEAST_BYTES", 100)
    data = corpora(tmp_path)

    def read(seed: int = 3, data: dict[str, Any] = data, **rules: Any) -> tuple[Pairs, Pairs | None, Pairs | None]:
        return read_run_corpora(data, ("aa", "bb"), CleaningConfig(**rules), seed)

    first = read()
    with monkeypatch.context() as patch:
        patch.setattr("training.data.run_corpora.clean", lambda *_, **__: pytest.fail("it was cleaned again"))
        again = read()
    for one, other in zip(first, again, strict=True):
        assert one is not None and other is not None
        assert one == other
        assert [one.place(i) for i in range(len(one))] == [other.place(i) for i in range(len(other))]
        assert one.reported() == other.reported()
    assert [path.suffix for path in (large / "corpora").iterdir() if path.is_dir()] == [""]
    assert any("later runs on the same corpus use" in note for note in first[0].reported().notes)
    assert read(seed=4)[1] != first[1]
    assert len(read(duplicates=False)[0]) > len(first[0])
    path = Path(data["train"][1])
    path.write_text(path.read_text() + "neu\tnew\n")
    assert len(read()[0]) == len(first[0]) + 1
    (damaged,) = {one for one in (first[0].folder,) if one}
    (damaged / "source.texts").write_bytes(b"cut")
    path.write_text(path.read_text().removesuffix("neu\tnew\n"))
    with pytest.raises(ValueError, match=r"is damaged: remove it, and the run makes it again"):
        read()


@pytest.mark.usefixtures("no_curves")
def test_a_large_corpus_gives_the_weights_of_a_small_one(
    tmp_path: Path, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_corpora, "LEAST_BYTES", 100)
    tokenizer = TokenizerConfig(vocab_size=30)
    config = translator(
        tokenizer=tokenizer,
        tokens_per_batch=160,
        loop=LoopConfig(max_epochs=2),
        max_tokens=12,
    )
    data = corpora(tmp_path)
    weights = []
    for name, least in (("small", 10**6), ("large", 50), ("again", 50)):
        monkeypatch.setattr(sentence_pairs, "LARGE_PAIRS", least)
        train, valid, _ = read_run_corpora(data, ("aa", "bb"), config.cleaning, config.loop.seed)
        assert train.large == (name != "small")
        train_translator(config, train, valid, TrainingRun(out=tmp_path / name, device=CPU, quiet=True))
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
        report = json.loads((tmp_path / name / "corpus.json").read_text())
        assert report["dropped"]["over 12 tokens"]["count"] > 0
    assert weights[0] == weights[1] == weights[2]
    assert len(list(large.glob("corpora/*/tokens-*/source.ids"))) == 1


def test_the_vocabulary_is_fitted_to_a_sample_of_a_larger_corpus() -> None:
    given = pairs(400)
    sampled = TokenizerConfig(vocab_size=40, sample_pairs=100)
    drawn = sorted(random.Random(0).sample(range(400), 100))
    expected = fit_translator_tokenizers(
        TokenizerConfig(vocab_size=40), [given.sources[i] for i in drawn], [given.targets[i] for i in drawn]
    )
    assert tokenizer_digest(fit_translator_tokenizers(sampled, given.sources, given.targets)) == tokenizer_digest(
        expected
    )


@pytest.mark.slow
@pytest.mark.usefixtures("no_curves")
def test_a_run_on_a_large_corpus_is_resumed_bit_for_bit(
    tmp_path: Path, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_corpora, "LEAST_BYTES", 100)
    tokenizer = TokenizerConfig(vocab_size=30)
    config = translator(tokenizer=tokenizer, loop=LoopConfig(max_epochs=3, ema_decay=0.9))
    data = corpora(tmp_path)

    def run(name: str, resume: bool = False) -> None:
        train, valid, _ = read_run_corpora(data, ("aa", "bb"), config.cleaning, config.loop.seed)
        assert train.large
        train_translator(config, train, valid, TrainingRun(out=tmp_path / name, device=CPU, quiet=True, resume=resume))

    run("whole")
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 7)
        with pytest.raises(Killed):
            run("parts")
    run("parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_a_process_that_waits_for_a_lock_says_so(cache: Path) -> None:
    path = cache / "corpora" / "one"
    imports = "import sys, pathlib; from training.data.stored_corpus import locked"
    code = f"{imports}\nwith locked(pathlib.Path(sys.argv[1])): pass"
    with locked(path):
        waiting = subprocess.Popen([sys.executable, "-c", code, str(path)], stderr=subprocess.PIPE, text=True)
        assert waiting.stderr is not None
        assert waiting.stderr.readline() == f"Waits for another process, which is making {path}.\n"
        assert waiting.poll() is None
    with waiting:
        assert waiting.stderr.read() == ""
    assert waiting.returncode == 0
