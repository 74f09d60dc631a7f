"""A teacher's translations: their choice, their order in the file, and refused input."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
import torch

from models import checkpoint as checkpoints
from models.decoding.options import DecodingOptions
from models.networks.loading import load_network
from tests.training.cli.commands import refused
from training.__main__ import main
from training.cli.command_options import PAIRS
from training.data import corpus_loading
from training.data.corpus_loading import read_pairs
from training.evaluation.model_outputs import translate
from training.translation import distillation
from training.translation.distillation import Teacher
from training.translation.line_translator import LineTranslator

SOURCES = ["ab ba", "b", "a b a b a b", "ba", "abab", "b a"]
TARGETS = ["ba ab", "a", "b a b a b a", "ab", "baba", "a b"]
TRANSLATOR, LYRICIST = "tiny-de-en", "tiny-lyrics"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = zip(SOURCES, TARGETS, strict=True)
    (tmp_path / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in rows), encoding="utf-8")
    return tmp_path


def teacher(folder: Path, beam: int) -> Teacher:
    return Teacher(LineTranslator([folder / TRANSLATOR], torch.device("cpu"), "fp32"), beam)


def written(path: Path) -> list[tuple[str, str]]:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    return [(row["de"], row["en"]) for row in map(json.loads, text.splitlines())]


def distil(folder: Path, out: str, *more: str) -> int:
    return main(["distil", str(folder / TRANSLATOR), "--train", "pairs.tsv", "--out", out, "--device", "cpu", *more])


def test_the_nearest_to_the_reference_is_chosen_and_of_equals_the_likeliest(tiny_checkpoints: Path) -> None:
    one = teacher(tiny_checkpoints, 3)
    reference = "a small dog runs over the grass"
    hypotheses = ["the dog runs", "a cat runs over the grass", "a small dog runs on the grass", "small dog grass"]
    assert one.nearest(hypotheses, reference) == hypotheses[2]
    assert one.nearest(["one", "two", "three"], reference) == "one"
    assert one.nearest(["a dog", "grass"], "grass") == "grass"  # shorter than four words, and scored all the same


def test_a_beam_offers_all_its_hypotheses_and_the_first_is_the_translation(tiny_checkpoints: Path) -> None:
    results = teacher(tiny_checkpoints, 4).hypotheses(SOURCES)
    checkpoint = checkpoints.read(tiny_checkpoints / TRANSLATOR)
    network = load_network(checkpoint, torch.device("cpu"))
    assert [result[0] for result in results] == translate(checkpoint, network, SOURCES, beam=4)
    assert all(len(result) == 4 for result in results)
    assert any(len(set(result)) > 1 for result in results)


def test_the_file_has_the_corpus_in_its_order_and_can_be_trained_on(
    here: Path, tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(distillation, "CHUNK_PAIRS", 2)
    one = teacher(tiny_checkpoints, 3)
    chosen = sorted(one([(i, s, t) for i, (s, t) in enumerate(zip(SOURCES, TARGETS, strict=True))]))
    expected = [(SOURCES[i], text) for i, _, text in chosen if text.strip()]
    assert len(expected) > 2
    assert distil(tiny_checkpoints, "d.jsonl.gz", "--beam", "3") == 0
    assert written(here / "d.jsonl.gz") == expected
    output = json.loads(capsys.readouterr().out)
    assert (output["pairs"], output["too_long"]) == (len(expected), 0)
    assert output["bleu"] >= output["bleu_of_first"]
    targets = [" ".join(text.split()) for _, text in expected]
    assert read_pairs("d.jsonl.gz", ("de", "en")).targets == targets
    assert read_pairs("d.jsonl.gz", ("en", "de")).sources == targets  # what it is to a student of the other direction


@pytest.mark.slow
def test_two_processes_write_what_one_does(here: Path, tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distillation, "CHUNK_PAIRS", 1)
    assert distil(tiny_checkpoints, "one.jsonl") == 0
    assert distil(tiny_checkpoints, "two.jsonl", "--processes", "2") == 0
    assert (here / "two.jsonl").read_bytes() == (here / "one.jsonl").read_bytes()


def test_sources_that_a_server_would_refuse_are_left_out(
    here: Path, tiny_checkpoints: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    most = checkpoints.read(tiny_checkpoints / TRANSLATOR).config.max_source_tokens
    (here / "pairs.tsv").write_text(f"ab\tba\n{'a b ' * most}\tlong\n", encoding="utf-8")
    assert distil(tiny_checkpoints, "d.jsonl") == 0
    assert [source for source, _ in written(here / "d.jsonl")] == ["ab"]
    assert json.loads(capsys.readouterr().out)["too_long"] == 1


def test_an_interrupted_command_goes_on(here: Path, tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distillation, "CHUNK_PAIRS", 2)
    assert distil(tiny_checkpoints, "whole.jsonl.gz") == 0
    work, calls = Teacher.__call__, [0]

    def interrupted(self: Teacher, pairs: list[tuple[int, str, str]]) -> list[distillation.ChosenTranslation]:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        return work(self, pairs)

    monkeypatch.setattr(Teacher, "__call__", interrupted)
    assert distil(tiny_checkpoints, "d.jsonl.gz") == 130
    assert not (here / "d.jsonl.gz").exists()
    assert distil(tiny_checkpoints, "d.jsonl.gz", "--resume") == 0
    assert calls == [4]  # three chunks, and the interrupted one again
    assert (here / "d.jsonl.gz").read_bytes() == (here / "whole.jsonl.gz").read_bytes()
    assert not list(here.glob("*.partial*"))


def test_a_text_becomes_pairs_with_its_best_translations(
    here: Path, ending_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    most = checkpoints.read(ending_model).config.max_source_tokens
    lines = ["ab", "", *SOURCES, "a b " * most]
    (here / "one.txt").write_text("\r\n".join(lines[:4]), encoding="utf-8")
    (here / "two.txt.gz").write_bytes(gzip.compress("\n".join(lines[4:]).encode()))
    model, cpu = str(ending_model), ("--device", "cpu", "--beam", "3", "--precision", "fp32")
    assert main(["distil", model, "--train", "one.txt", "--text", "two.txt.gz", "--out", "d.jsonl", *cpu]) == 0
    translator = LineTranslator([Path(model)], torch.device("cpu"), "fp32")
    results = translator.translate(lines[:-1], DecodingOptions(beam_size=3))
    expected = [
        (line, result.candidates[0].text.strip())
        for line, result in zip(lines, results, strict=False)
        if result.candidates[0].text.strip() and not result.unfinished
    ]
    assert len(expected) > 2
    assert written(here / "d.jsonl") == expected
    output = json.loads(capsys.readouterr().out)
    assert (output["pairs"], output["too_long"]) == (len(expected), 1)
    assert output["empty"] + output["unfinished"] == len(lines) - 1 - len(expected)
    back = read_pairs("d.jsonl", ("en", "de"))  # back-translation, to a student of the other direction
    assert (back.sources, back.targets) == ([text for _, text in expected], [line for line, _ in expected])


def test_text_without_a_line_is_refused(here: Path, tiny_checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "empty.txt").write_text("")
    command = ["distil", str(tiny_checkpoints / TRANSLATOR), "--text", "empty.txt", "--out", "x.jsonl"]
    assert "The text has no line to translate: x.jsonl is not written." in refused(capsys, *command, "--device", "cpu")
    assert sorted(path.name for path in here.iterdir()) == ["empty.txt", "pairs.tsv"]


def test_all_problems_are_reported_at_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = refused(capsys, "distil", "m", "--beam", "0", "--processes", "0", "--out", "d.tsv", "--device", "cpu")
    for part in (
        "--train (pairs) or --text (a text in the source language) is missing",
        "--beam must be 1 to 64, not 0",
        "--processes must be at least 1, not 0",
    ):
        assert part in output
    assert "--out must end in .jsonl or .jsonl.gz, not be d.tsv" in output
    (here / "text").write_text("one column\n", encoding="utf-8")
    mixed = refused(capsys, "distil", "m", "--train", "text", "pairs.tsv", "--out", "d.jsonl", "--device", "cpu")
    assert "text is a text and pairs.tsv holds pairs: translate them one after the other" in mixed


def test_unusable_teachers_and_corpora_are_refused(
    here: Path, tiny_checkpoints: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("--train", "pairs.tsv", "--out", "d.jsonl", "--device", "cpu")
    lyricist = tiny_checkpoints / LYRICIST
    expected = f"{lyricist} is a lyricist, and only a translator can translate."
    assert refused(capsys, "distil", str(lyricist), *common) == expected
    assert "nowhere" in refused(capsys, "distil", "nowhere", *common)
    (here / "d.jsonl").write_text("kept\n", encoding="utf-8")
    assert "d.jsonl exists; choose another --out" in refused(capsys, "distil", "m", *common)
    assert (here / "d.jsonl").read_text(encoding="utf-8") == "kept\n"


def test_each_format_is_classified_as_pairs_or_text(tmp_path: Path) -> None:
    documented = Path(corpus_loading.__file__).parents[2].joinpath("docs", "training.md").read_text(encoding="utf-8")
    table = documented.partition("| argument of `--train`")[2].partition("\n\n")[0]
    named = set(re.findall(r"\.[a-z]+", f"{corpus_loading.FORMATS} {PAIRS} {table}")) - {".gz", ".de", ".en"}
    assert {".tsv", ".csv", ".tmx"} < named
    assert named <= {*corpus_loading.PAIR_FORMATS, *corpus_loading.TEXT_FORMATS, ".tsv"}
    for suffix in (*corpus_loading.PAIR_FORMATS, *corpus_loading.TEXT_FORMATS, ".tsv"):
        for content in ("der Hund,the dog\n", "der Hund;the dog\n", "der Hund\tthe dog\n"):
            (tmp_path / f"file{suffix}").write_text(content, encoding="utf-8")
            is_text = suffix not in corpus_loading.PAIR_FORMATS and "\t" not in content
            assert corpus_loading.is_monolingual(str(tmp_path / f"file{suffix}")) is is_text


@pytest.mark.parametrize("comma", [",", ";"])
def test_csv_of_pairs_is_distilled_as_pairs(here: Path, tiny_checkpoints: Path, comma: str) -> None:
    rows = "".join(f"{s}{comma}{t}\n" for s, t in zip(SOURCES, TARGETS, strict=True))
    (here / "pairs.csv").write_text(rows, encoding="utf-8")
    assert distil(tiny_checkpoints, "tsv.jsonl") == 0
    command = ["distil", str(tiny_checkpoints / TRANSLATOR), "--train", "pairs.csv", "--device", "cpu"]
    assert main([*command, "--out", "csv.jsonl"]) == 0
    assert written(here / "csv.jsonl") == written(here / "tsv.jsonl")


def test_files_of_pairs_are_no_texts(here: Path, tiny_checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "pairs.csv").write_text("ab,ba\n", encoding="utf-8")
    model, out = str(tiny_checkpoints / TRANSLATOR), ["--out", "x.jsonl", "--device", "cpu"]
    no_text = "is read as pairs, not as a text with a sentence on each line"
    for name in ("pairs.csv", "pairs.tsv"):
        assert f"{name} {no_text}: give it with --train" in refused(capsys, "distil", model, "--text", name, *out)
    assert not (here / "x.jsonl").exists()
