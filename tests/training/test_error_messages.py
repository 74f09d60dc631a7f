"""Messages of a run, and the process that prints them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from models import checkpoint as checkpoints
from models.backends.native.cpu import cpu_flags
from tests.tiny import write_translator
from tests.training import group_runs
from tests.training.cli.commands import SHORT, SING, TRANSLATE, refused
from tests.training.groups import together
from tests.training.small import CPU, pairs
from training.__main__ import main
from training.config.recipes import TRANSLATORS
from training.training_run import TrainingRun
from training.translator_run import fitted_tokenizers

pytestmark = pytest.mark.usefixtures("no_curves")


@pytest.mark.slow
def test_note_of_a_group_does_not_silence_its_error() -> None:
    first, second = together(2, group_runs.speak)
    assert "On the way.\n" in first
    assert "On the way.\n" not in second
    assert (first + second).count("error: The end.\n") == 1


def test_output_folder_is_checked_before_the_corpus_is_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (SING, [*TRANSLATE, "--train", "none.tsv"]):
        message = refused(
            capsys, *command, "--corpus" if command is SING else "--valid", "none.txt", "--out", "song.txt"
        )
        assert message == "song.txt is a file; --out names a folder."


def test_wrong_number_of_processes_is_reported_with_other_problems(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = "This cannot start: --processes must be at least 1, not -1; loop.max_epochs must be at least 1, not 0."
    assert refused(capsys, *SING, "--processes", "-1", "--max-epochs", "0") == expected


@pytest.mark.parametrize("kernels", ["avx", "neon" if "amx_tile" in cpu_flags() else "amx"])
def test_kernels_that_this_cpu_cannot_run_are_one_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kernels: str
) -> None:
    write_translator(here / "model", "de", "en")
    (here / "in.txt").write_text("ein hund\n")
    monkeypatch.setenv("PARLANCE_NATIVE", kernels)
    for precision in ("auto", "fp32"):
        message = refused(capsys, "translate", "model", "in.txt", "--device", "cpu", "--precision", precision)
        assert message.startswith(f'PARLANCE_NATIVE is "{kernels}": ')


def test_unreadable_corpus_files_are_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "folder").mkdir()
    assert refused(capsys, *TRANSLATE, "--train", "folder") == "folder is a folder, and a file is needed."
    (here / "pairs.tsv.gz").write_bytes(b"a\tA\n")
    expected = "pairs.tsv.gz cannot be read (no gzip file, or a damaged one): get it once more."
    assert refused(capsys, *TRANSLATE[:5], "--train", "pairs.tsv.gz", "--out", "m") == expected
    with gzip.open(here / "pairs.tsv.gz", "wb") as file:
        file.write(b"a\tA\n")
    assert "has 1 pair" in refused(capsys, *TRANSLATE[:5], "--train", "pairs.tsv.gz", "--out", "m")


def test_folder_without_a_marian_model_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "folder").mkdir()
    expected = "folder/config.json is missing: folder is not a whole Marian folder."
    assert refused(capsys, "import-marian", "folder", "--out", "m") == expected


def test_failed_run_without_a_snapshot_leaves_no_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wild = ["--set", "optimizer.name=sgd", "--set", "optimizer.learning_rate=1e9", "--set", "optimizer.clip_norm=0"]
    wild += ["--set", "optimizer.schedule=constant", "--set", "optimizer.warmup_updates=0"]
    assert " at update " in refused(capsys, *TRANSLATE, *wild)
    assert not (here / "m").exists()


def test_smaller_vocabulary_is_noted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = ["--set", "tokenizer.kind=sentencepiece", "--vocab-size", "90000"]
    assert main([*TRANSLATE, *SHORT, *kind]) == 0
    size = max(t.size for t in checkpoints.read(here / "m").tokenizers.values())
    assert size < 500
    sentence = f"The corpus has enough for a vocabulary of {size:,} pieces, fewer than the 90,000 asked for."
    assert sentence in capsys.readouterr().err.splitlines()


def test_missing_out_is_reported_with_other_problems(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = "This cannot start: --sead is no option, did you mean --seed?; --out is missing."
    assert refused(capsys, *SING[:3], "--sead", "3") == expected
    assert refused(capsys, "translator", "--resume").endswith("; --train is missing; --out is missing.")


def test_made_up_tasks_of_few_words_are_told_of_their_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = TrainingRun(out=tmp_path, device=CPU)
    fitted_tokenizers(TRANSLATORS["tiny"].config, pairs(200), run)
    assert "; made-up tasks of so few words learn faster with --recipe toy." in capsys.readouterr().err
