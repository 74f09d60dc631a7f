"""`evaluate` of several systems: the paired bootstrap beside sacreBLEU's own program, ensembles, outputs, refusals."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from tests import tiny as folders
from tests.combinations import slow_but
from tests.training.small import CPU
from training.__main__ import main
from training.data.sentence_pairs import Pairs
from training.evaluation import system_comparison
from training.evaluation.ensemble import load_ensemble
from training.evaluation.model_outputs import load_model, translate
from training.evaluation.reranking import Reranker
from training.evaluation.scores import score_lyricist, score_translator
from training.evaluation.system_comparison import System, compare_systems
from training.evaluation.text_metrics import TextMetrics, text_scores

SENTENCES = 24
TEST = ("--test", "test.de,test.en")
SEEDS = ("seed-1", "seed-2", "seed-3")
METRICS = TextMetrics(ter=True)


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_comparison, "RESAMPLES", 9)


def corrupted(text: str, rate: float, generator: random.Random) -> str:
    return " ".join(word for word in text.split() if generator.random() > rate) or text


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three translators of one vocabulary, one of another, one of the other direction, and two lyricists."""
    root = tmp_path_factory.mktemp("evaluate")
    for number, name in enumerate(SEEDS, start=1):
        folders.write_translator(root / name, "de", "en", seed=number)
    folders.write_translator(root / "back", "en", "de", backwards=True)
    for number in (1, 2):
        folders.write_lyricist(root / f"song-{number}", seed=number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folders, "ENGLISH", [*folders.ENGLISH, "one more word"])
        folders.write_translator(root / "other", "de", "en")
    return root


@pytest.fixture
def here(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A test set, and the outputs of two systems that leave out words, in the working directory."""
    generator = random.Random(7)
    pairs = [generator.choice(list(zip(folders.GERMAN, folders.ENGLISH, strict=True))) for _ in range(SENTENCES)]
    pairs = [(f"{a} {c}", f"{b} {d}") for (a, b), (c, d) in zip(pairs, reversed(pairs), strict=True)]
    monkeypatch.chdir(tmp_path)
    for name in (*SEEDS, "back", "other", "song-1", "song-2"):
        (tmp_path / name).symlink_to(models / name)
    (tmp_path / "test.de").write_text("".join(f"{source}\n" for source, _ in pairs), encoding="utf-8")
    (tmp_path / "test.en").write_text("".join(f"{target}\n" for _, target in pairs), encoding="utf-8")
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "seed-2.txt").write_text("of another evaluation\n")
    for name, rate in (("good", 0.1), ("near", 0.1), ("bad", 0.3)):
        lines = "".join(f"{corrupted(target, rate, generator)}\n" for _, target in pairs)
        (tmp_path / f"{name}.txt").write_text(lines, encoding="utf-8")
    return tmp_path


def shorten(folder: Path, count: int) -> None:
    """The test set to its first pairs, for models that write until their limit."""
    for side in ("de", "en"):
        lines = (folder / f"test.{side}").read_text().splitlines(keepends=True)
        (folder / f"test.{side}").write_text("".join(lines[:count]))


def pairs_of(folder: Path) -> Pairs:
    sources, targets = ((folder / f"test.{side}").read_text().splitlines() for side in ("de", "en"))
    return Pairs(sources, targets)


def evaluate(*arguments: str) -> int:
    return main(["evaluate", *arguments, "--device", "cpu"])


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert evaluate(*arguments, "--test", "test.de,test.en") == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(result, dict)
    return result


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The sentence, before which only notes may stand."""
    assert evaluate(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    *notes, last = captured.err.splitlines()
    assert all(note.startswith("note: ") for note in notes)
    return last.removeprefix("error: ")


def systems_of(folder: Path, *names: str) -> list[System]:
    """The outputs of files, with scores of their own."""
    references = [(folder / "test.en").read_text().splitlines()]
    systems = []
    for name in names:
        outputs = (folder / f"{name}.txt").read_text().splitlines()
        systems.append(System(name, outputs, {**text_scores(outputs, references, METRICS), "perplexity": 1.0}, None))
    return systems


@pytest.mark.slow
def test_the_paired_bootstrap_is_that_of_sacrebleus_program(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every mean, interval and p-value, to the four digits of both."""
    assert evaluate("seed-1", *TEST, "--output", "model.txt") == 0
    capsys.readouterr()
    names = ("good", "near", "bad", "model")
    files = [f"{name}.txt" for name in names]
    references = [(here / "test.en").read_text().splitlines()]
    result: Any = compare_systems(systems_of(here, *names), references, METRICS, resamples=300).as_json()
    assert [system["name"] for system in result["systems"]] == [*names]
    assert result["baseline"] == "good"
    program = [sys.executable, "-m", "sacrebleu", "test.en", "-i", *files]
    program += ["-m", "bleu", "chrf", "ter", "--paired-bs", "--paired-bs-n", "300", "-w", "4", "-f", "text", "-q"]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    table = subprocess.run(program, capture_output=True, check=True, env=environment).stdout.decode()
    theirs = [tuple(map(float, cell)) for cell in re.findall(r"(\d+\.\d+) \((\d+\.\d+) ± (\d+\.\d+)\)", table)]
    p_values = [float(value) for value in re.findall(r"\(p = (\d\.\d+)\)", table)]
    assert (len(theirs), len(p_values)) == (12, 9)
    scores = ("bleu", "chrf", "ter")
    boots = [system["paired_bs"][name] for system in result["systems"] for name in scores]
    assert [(boot["mean"], boot["ci"]) for boot in boots] == [(mean, ci) for _, mean, ci in theirs]
    assert [boot["p_value"] for boot in boots[3:]] == p_values
    assert all("p_value" not in boot for boot in boots[:3])
    rounded = [system[name] for system in result["systems"] for name in scores]
    assert rounded == [round(score, 2) for score, _, _ in theirs]
    for signature in result["paired_bs_signatures"].values():
        assert f" {signature}\n" in table
    assert min(p_values) < 0.01 < 0.05 < max(p_values), "differences above and below what chance alone makes"


def test_the_table_marks_the_baseline_and_what_chance_alone_would_not_make(here: Path) -> None:
    (here / "same.txt").write_bytes((here / "good.txt").read_bytes())
    references = [(here / "test.en").read_text().splitlines()]
    comparison = compare_systems(systems_of(here, "good", "bad", "same"), references, TextMetrics(), resamples=1000)
    lines = list(comparison.lines())
    rows = {row.split()[0]: row for row in lines if "±" in row}
    assert rows["good"].startswith("good (baseline)")
    assert "*" not in rows["good"] + rows["same"]
    assert rows["bad"].count("*") == 2
    result: Any = comparison.as_json()
    good, _, same = result["systems"]
    assert good["bleu"] == same["bleu"]
    assert same["paired_bs"]["bleu"]["p_value"] == 0.001, "sacreBLEU's own, for no difference at all"
    assert "same has the outputs of the baseline: there is no difference to test." in lines
    assert [rows["same"].split().count(cell) for cell in ("–", "0.0010")] == [2, 0]


def test_an_ensemble_stands_beside_each_model_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shorten(here, 9)
    result = compared(capsys, *SEEDS, "--ensemble", "--beam", "2", "--output", "out")
    pairs, alone = pairs_of(here), result["systems"][:3]
    for name, system in zip(SEEDS, alone, strict=True):
        expected = score_translator(*load_model(here / name, CPU), pairs, beam=2)
        assert {key: system[key] for key in ("bleu", "chrf", "nats_per_token")} == {
            key: expected[key] for key in ("bleu", "chrf", "nats_per_token")
        }
    ensemble = result["systems"][3]
    checkpoint, network = load_ensemble([here / name for name in SEEDS], CPU)
    expected = score_translator(checkpoint, network, pairs, beam=2)
    assert (ensemble["name"], ensemble["members"]) == ("ensemble", 3)
    assert all(ensemble[key] == expected[key] for key in ("bleu", "chrf", "nats_per_token"))
    assert ensemble["nats_per_token"] < sum(system["nats_per_token"] for system in alone) / 3
    best = max(alone, key=lambda system: system["bleu"])
    assert result["baseline"] == best["name"]
    assert "p_value" not in best["paired_bs"]["bleu"]
    outputs = (here / "out" / "ensemble.txt").read_text().splitlines()
    assert outputs == translate(checkpoint, network, pairs.sources, beam=2)
    assert sorted(path.name for path in (here / "out").iterdir()) == ["ensemble.txt", *(f"{n}.txt" for n in SEEDS)]
    capsys.readouterr()


@pytest.mark.slow
def test_the_other_direction_chooses_from_each_systems_beam(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shorten(here, 9)
    names = ("seed-1", "seed-2")
    rerank = ("--beam", "3", "--rerank", "back", "--rerank-weight", "6")
    result = compared(capsys, *names, "--ensemble", *rerank, "--output", "out")
    reranker, sources = Reranker([here / "back"], CPU, ("de", "en"), 6.0), pairs_of(here).sources
    loaded = [load_model(here / name, CPU) for name in names]
    for name, model in zip((*names, "ensemble"), (*loaded, load_ensemble([here / n for n in names], CPU)), strict=True):
        outputs = (here / "out" / f"{name}.txt").read_text().splitlines()
        assert outputs == translate(*model, sources, beam=3, rerank=reranker)
        assert outputs != translate(*model, sources, beam=3)
    assert [(each["reranked_by"], each["rerank_weight"]) for each in result["systems"]] == [("back", 6.0)] * 3


def test_a_model_that_names_no_languages_is_reranked_in_those_of_the_options(
    here: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shorten(here, 3)
    folders.write_translator(tmp_path / "nameless", None, None)
    folders.write_multilingual(tmp_path / "many", [("en", "de"), ("en", "fr")])
    wanted = ("nameless", "--beam", "2", "--rerank", "many")
    assert refused(capsys, *wanted, *TEST).endswith("(--source, --target).")
    assert compared(capsys, *wanted, "--source", "de", "--target", "en")["reranked_by"] == "many"


@pytest.mark.parametrize("output", ["new/hyps.txt", "-"])
def test_outputs_are_a_line_for_each_pair(here: Path, capsys: pytest.CaptureFixture[str], output: str) -> None:
    assert evaluate("seed-1", "--test", "test.de,test.en", "--output", output, "--precision", "int8") == 0
    *printed, last = capsys.readouterr().out.splitlines()
    lines = printed if output == "-" else (here / output).read_text(encoding="utf-8").splitlines()
    checkpoint, network = load_model(here / "seed-1", CPU)
    assert lines == translate(checkpoint, network, pairs_of(here).sources, precision="int8")
    score = json.loads(last)
    assert score["bleu"] == round(sacrebleu.corpus_bleu(lines, [pairs_of(here).targets]).score, 2)
    assert score["precision"] == "int8"


def test_output_is_replaced_where_the_user_says_so(here: Path) -> None:
    (here / "earlier.txt").write_text("of another evaluation\n")
    assert evaluate("seed-1", *TEST, "--output", "earlier.txt", "--overwrite") == 0
    assert len((here / "earlier.txt").read_text().splitlines()) == 24


@pytest.mark.parametrize("spelt", slow_but(["train.tsv", "./folder/../train.tsv", "renamed.tsv"], "renamed.tsv"))
def test_scoring_on_the_training_file_is_noted(
    here: Path, capsys: pytest.CaptureFixture[str], no_curves: None, spelt: str
) -> None:
    (here / "folder").mkdir()
    (here / "train.tsv").write_text("".join(f"a b {i}\tB A {i}\n" for i in range(30)))
    (here / "renamed.tsv").write_bytes((here / "train.tsv").read_bytes())
    common = ["--source", "de", "--target", "en", "--device", "cpu", "--max-epochs", "1"]
    small = ["--set", "network.d_model=16", "network.d_ff=16", "network.encoder_layers=1", "network.decoder_layers=1"]
    small += ["network.heads=2", "network.head_width=8", "tokenizer.vocab_size=30"]
    assert main(["translator", *common, "--train", "train.tsv", "--out", "own", *small]) == 0
    capsys.readouterr()
    assert evaluate("own", "seed-1", "--test", spelt) == 0
    noted = [line for line in capsys.readouterr().err.splitlines() if "was trained on" in line]
    file = Path(spelt).as_posix()
    assert noted == [f"note: own was trained on {file}: its scores on it do not tell how well it does on other texts."]
    assert evaluate("own", *TEST) == 0
    assert "was trained on" not in capsys.readouterr().err


def test_pairs_with_an_empty_side_keep_their_lines(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the files of the test set, of the outputs and of further references, with any line endings."""
    sources = (here / "test.de").read_text().splitlines()
    sources[3] = ""
    (here / "test.de").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(sources).encode())  # no line end at the end
    assert evaluate("seed-1", "--test", "test.de,test.en", "--output", "hyps.txt") == 0
    assert "note: 1 of 24 pairs not scored: empty side.\n" in capsys.readouterr().err
    lines = (here / "hyps.txt").read_text().split("\n")
    assert (len(lines), lines[3], lines[-1]) == (25, "", "")
    assert lines[4] != ""
    with_gap = (here / "good.txt").read_text().splitlines()
    (here / "kept.txt").write_bytes("\r\n".join(with_gap[:3] + with_gap[4:]).encode())
    scores = [compared(capsys, "seed-1", "--reference", name)["chrf"] for name in ("good.txt", "kept.txt")]
    references = (here / "test.en").read_text().splitlines()
    del with_gap[3], references[3], lines[3], lines[-1]
    assert scores == [round(sacrebleu.corpus_chrf(lines, [references, with_gap]).score, 2)] * 2
    (here / "short.txt").write_text("one\ntwo\n")
    sentence = "short.txt has 2 lines and test.de,test.en 24 pairs: line n must translate pair n."
    assert refused(capsys, "seed-1", "--test", "test.de,test.en", "--reference", "short.txt") == sentence


def test_further_references_and_tokenizers_are_sacrebleus(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    references = [(here / name).read_text().splitlines() for name in ("test.en", "bad.txt")]
    given = ("--reference", "bad.txt", "--tokenize", "char", "--output", "hyps.txt")
    score = compared(capsys, "seed-1", *given)
    outputs = (here / "hyps.txt").read_text().splitlines()
    assert score["bleu"] == round(sacrebleu.BLEU(tokenize="char").corpus_score(outputs, references).score, 2)
    assert score["chrf"] == round(sacrebleu.CHRF().corpus_score(outputs, references).score, 2)
    assert "nrefs:2" in score["signature"]
    assert "tok:char" in score["signature"]


def test_perplexities_of_different_tokenizers_are_not_to_be_compared(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = "their perplexities per token cannot be compared"
    assert evaluate("seed-1", "other", *TEST) == 0
    assert warning in capsys.readouterr().out
    assert evaluate("seed-1", "seed-2", *TEST) == 0
    assert warning not in capsys.readouterr().out


def test_a_multilingual_model_is_scored_on_one_of_its_pairs(
    here: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shorten(here, 9)
    for seed in (1, 2):
        folders.write_multilingual(tmp_path / f"many-{seed}", [("de", "en"), ("de", "es")], seed=seed)
    sentence = (
        "many-1 translates de → en, de → es: say which source and target language are meant (--source, --target)."
    )
    assert refused(capsys, "many-1", *TEST) == sentence
    scores = [compared(capsys, "many-1", "--target", target)["nats_per_token"] for target in ("en", "es")]
    assert scores[0] != scores[1]
    assert refused(capsys, "seed-1", *TEST, "--target", "fr").startswith("seed-1 translates de → en, and not")
    single = load_model(here / "many-1", CPU)[0].for_pair("de", "es")
    assert score_translator(single, load_model(here / "many-1", CPU)[1], pairs_of(here))["nats_per_token"] == scores[1]
    result = compared(capsys, "many-1", "many-2", "--ensemble", "--target", "es")
    assert result["systems"][0]["nats_per_token"] == scores[1]
    assert result["systems"][2]["members"] == 2


def test_lyricists_stand_side_by_side(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "song.txt").write_text(folders.LYRICS, encoding="utf-8")
    assert evaluate("song-1", "song-2", "--corpus", "song.txt") == 0
    *table, last = capsys.readouterr().out.splitlines()
    systems = json.loads(last)["systems"]
    for name, system, row in zip(("song-1", "song-2"), systems, table[1:], strict=True):
        assert system == {"name": name, **score_lyricist(*load_model(here / name, CPU), folders.LYRICS)}
        assert row.split()[:2] == [name, f"{system['bits_per_character']:.4f}"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "This cannot start: a FOLDER is missing: the model to score."),
        (("seed-1", "seed-1", *TEST), "This cannot start: seed-1 is given twice."),
        (("seed-1", "song-1"), "seed-1 is a translator and song-1 a lyricist: evaluate models of one kind at a time."),
        (("seed-1", "back", *TEST), "back translates en→de and seed-1 de→en: compare models of one direction."),
        (("seed-1", "nowhere", *TEST), "nowhere/config.json is missing: nowhere is not a checkpoint."),
        (
            ("seed-1", "--test", "test.de", "test.en"),
            "This cannot start: test.en is a file, not a checkpoint folder: a test set of two files is --test"
            " SOURCE,TARGET.",
        ),
        (("seed-1", *TEST, "--ensemble"), "This cannot start: --ensemble needs at least two folders."),
        (
            ("seed-1", "seed-2", *TEST, "--output", "-"),
            "This cannot start: --output - is for one system: name a folder for the translations of several.",
        ),
        (
            ("seed-1", "seed-2", *TEST, "--output", "good.txt"),
            "--output good.txt is a file, and the translations of several systems need a folder.",
        ),
        (("seed-1", *TEST, "--output", "seed-2"), "--output seed-2 is a folder: name a file in it."),
        (
            ("seed-1", *TEST, "--output", "good.txt"),
            "--output good.txt exists: choose another name, or replace it with --overwrite.",
        ),
        (
            ("seed-1", "seed-2", *TEST, "--output", "earlier"),
            "--output earlier/seed-2.txt exists: choose another name, or replace it with --overwrite.",
        ),
        (
            ("seed-1", *TEST, "--output", "test.en"),
            "--output test.en would overwrite a file that this command reads: choose another name.",
        ),
        (
            ("seed-1", *TEST, "--output", "good.txt/hyps.txt"),
            "The run cannot go on: good.txt is in the way: it is a file or a broken link.",
        ),
        (("seed-1",), "seed-1 is a translator: give --test SOURCE,TARGET."),
        (("seed-1", *TEST, "--reference", "no.txt"), "no.txt does not exist."),
        (
            ("song-1", "--corpus", "good.txt", "--ensemble", "--output", "x"),
            "This cannot start: --ensemble needs at least two folders.",
        ),
        (
            ("song-1", "song-2", "--corpus", "good.txt", "--ensemble", "--output", "x"),
            "song-1 is a lyricist: give --corpus FILE and no --ensemble and no --output.",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_one_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    assert refused(capsys, *arguments) == sentence


def test_output_goes_to_a_pipe_or_device_that_exists(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate("seed-1", *TEST, "--output", "/dev/null") == 0
    assert "bleu" in capsys.readouterr().out


def test_a_tokenizer_that_needs_more_than_is_installed_is_one_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(**options: object) -> None:
        raise RuntimeError("mecab is missing.\nSee the manual.")

    monkeypatch.setattr(sacrebleu, "BLEU", missing)
    sentence = refused(capsys, "seed-1", *TEST, "--tokenize", "ja-mecab")
    assert sentence == (
        "sacreBLEU's tokenizer ja-mecab cannot be used here (mecab is missing): install what it needs, or take"
        " --tokenize 13a, intl or char."
    )
