"""`training translate`: one line out for each line in, whatever the file and however often it is interrupted."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from models import checkpoint as checkpoints
from models.decoding.options import DecodingOptions
from models.networks.loading import load_network
from tests.tiny import write_multilingual, write_translator
from tests.training.cli.commands import refused
from training.__main__ import main
from training.evaluation.ensemble import load_ensemble
from training.evaluation.model_outputs import hypotheses, translate
from training.evaluation.reranking import Reranker
from training.translation import file_translation
from training.translation.file_translation import NOT_WRITTEN, ChunkTranslation, identity, shown_rate
from training.translation.line_input import LineChunk
from training.translation.line_translator import LineTranslator, parts_that_fit

LINES = ["ab ba", "b", "a b a", "", "ba", "abab", "b a", "  ", "ab ba", "aab"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def model(tiny_checkpoints: Path) -> str:
    return str(tiny_checkpoints / "tiny-de-en")


def expected(model: str, lines: list[str], beam: int) -> list[str]:
    """What `evaluate` gets from the same network."""
    checkpoint = checkpoints.read(Path(model))
    network = load_network(checkpoint, torch.device("cpu"))
    outputs = translate(checkpoint, network, [line for line in lines if line.strip()], beam=beam)
    left = iter(outputs)
    return [next(left) if line.strip() else "" for line in lines]


def run(*arguments: str) -> int:
    return main(["translate", *arguments, "--device", "cpu", "--precision", "fp32"])


def output(path: str) -> list[str]:
    data = Path(path).read_bytes()
    text = (gzip.decompress(data) if path.endswith(".gz") else data).decode()
    assert text.endswith("\n")
    return text.removesuffix("\n").split("\n")


@pytest.mark.parametrize("beam", [1, 3])
def test_each_line_has_its_translation_and_empty_lines_stay_empty(here: Path, model: str, beam: int) -> None:
    assert run(model, "in.txt", "--out", "out.txt", "--beam", str(beam)) == 0
    assert output("out.txt") == expected(model, LINES, beam)
    assert sorted(path.name for path in here.iterdir()) == ["in.txt", "out.txt"]


def test_the_same_lines_come_from_windows_files_compressed_files_several_files_and_threads(
    here: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(model, "in.txt", "--out", "out.txt") == 0
    whole = output("out.txt")
    (here / "crlf.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(LINES).encode())  # and no end of the last line
    (here / "in.txt.gz").write_bytes(gzip.compress("\n".join(LINES).encode()))
    assert run(model, "crlf.txt", "--out", "crlf.out") == 0
    assert run(model, "in.txt.gz", "--input", "crlf.txt", "--out", "both.out.gz") == 0
    monkeypatch.setattr(file_translation, "LEAST_CHUNK_LINES", 2)
    assert run(model, "in.txt", "--out", "threads.out", "--threads", "2") == 0
    assert output("crlf.out") == output("threads.out") == whole
    assert output("both.out.gz") == whole * 2


def test_files_may_stand_behind_options(here: Path, model: str) -> None:
    (here / "more.txt").write_text("b\n")
    assert run(model, "in.txt", "--out", "out.txt", "--beam", "1", "more.txt") == 0
    assert output("out.txt") == expected(model, [*LINES, "b"], 1)
    assert run(model, "--beam", "1", "--out", "other.txt", "in.txt", "more.txt") == 0
    assert output("other.txt") == output("out.txt")


def test_n_best_lists_scores_and_json_agree_with_the_beam(
    here: Path, model: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    def printed(*options: str) -> list[str]:
        assert run(model, "in.txt", "--beam", "4", *options) == 0
        return capsysbinary.readouterr().out.decode().splitlines()

    rows = [row.split(" ||| ") for row in printed("--n-best", "3")]
    checkpoint = checkpoints.read(Path(model))
    beams = hypotheses(checkpoint, load_network(checkpoint), [x for x in LINES if x.strip()], beam=4, n_best=3)
    assert [int(number) for number, *_ in rows] == [
        i for i, x in enumerate(LINES) for _ in range(3 if x.strip() else 1)
    ]
    assert [text for number, text, *_ in rows if LINES[int(number)].strip()] == [
        text for beam in beams for text in beam
    ]
    scores = {int(number): float(score) for number, _, _, score in reversed(rows)}
    assert [float(row.split("\t")[0]) for row in printed("--scores")] == [scores[i] for i in range(len(LINES))]
    objects = [json.loads(row) for row in printed("--json", "--n-best", "2")]
    assert [(o["line"], o["source"], o["score"]) for o in objects] == [
        (i + 1, line, scores[i]) for i, line in enumerate(LINES)
    ]
    assert [each["text"] for each in objects[0]["n_best"]] == beams[0][:2]


def test_lines_too_long_for_the_model_are_translated_in_parts_and_named(
    here: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    most = checkpoints.read(Path(model)).config.max_source_tokens
    sentence = "ab ba " * (most // 3)
    (here / "in.txt").write_text(f"b\n{sentence}. {sentence}. {sentence}.\n{sentence * 4}\n", encoding="utf-8")
    assert run(model, "in.txt", "--out", "out.json", "--json", "--max-new-tokens", "3") == 0
    first, long, longest = map(json.loads, output("out.json"))
    assert "parts" not in first and long["parts"] > 1 and longest["parts"] > 1
    note = capsys.readouterr().err
    assert f"2 lines (2, 3) were longer than the {most} tokens that the model takes" in note
    assert "ended by the limit of 3 tokens; see --max-new-tokens" in note


def test_parts_of_a_long_line_fit_and_lose_nothing() -> None:
    def fits(text: str) -> bool:
        return len(text) <= 12

    text = "Ein Hund. Eine sehr lange Katze schläft heute! Ja?"
    parts = list(parts_that_fit(text, "de", fits))
    assert parts[0] == "Ein Hund." and parts[-1] == "Ja?"
    assert " ".join(parts) == text and all(map(fits, parts))
    unspaced = "今天天气很好我们去公园散步吧明天再说"
    parts = list(parts_that_fit(unspaced, "zh", fits))
    assert "".join(parts) == unspaced and all(map(fits, parts))
    assert "".join(parts_that_fit("x" * 30_001, "xx", fits)) == "x" * 30_001


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
def test_a_stopped_command_goes_on_and_ends_as_an_undisturbed_one(
    here: Path, model: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(file_translation, "LEAST_CHUNK_LINES", 2)
    assert run(model, "in.txt", "--out", f"whole-{name}") == 0
    work, calls = ChunkTranslation.__call__, list[int]()

    def interrupted(self: ChunkTranslation, chunk: LineChunk) -> file_translation.WrittenChunk:
        calls.append(chunk.first)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return work(self, chunk)

    monkeypatch.setattr(ChunkTranslation, "__call__", interrupted)
    assert run(model, "in.txt", "--out", name) == 130
    assert "--resume" in capsys.readouterr().err
    assert not Path(name).exists()
    assert f"{name}.partial holds an unfinished output" in refused(capsys, "translate", model, "in.txt", "--out", name)
    with (here / f"{name}.partial").open("ab") as file:
        file.write(b"torn")  # what a kill leaves behind the last record
    monkeypatch.setattr(file_translation, "LEAST_CHUNK_LINES", 5)  # chunks stay as they were begun
    assert run(model, "in.txt", "--out", name, "--resume") == 0
    assert calls == [0, 2, 4, 4, 6, 8]
    assert Path(name).read_bytes() == Path(f"whole-{name}").read_bytes()
    assert not list(here.glob("*.partial*"))


def test_other_options_models_and_inputs_are_not_mixed_into_a_partial_output(
    here: Path, model: str, tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    back = write_translator(here / "back", "en", "de")
    monkeypatch.setattr(file_translation, "LEAST_CHUNK_LINES", 2)
    work = ChunkTranslation.__call__

    def full_disk(self: ChunkTranslation, chunk: LineChunk) -> file_translation.WrittenChunk:
        if chunk.first == 4:
            raise OSError(28, "No space left on device", "out.txt.partial")
        return work(self, chunk)

    monkeypatch.setattr(ChunkTranslation, "__call__", full_disk)
    common = ("in.txt", "--out", "out.txt", "--device", "cpu")
    fp32 = ("--precision", "fp32")
    assert "out.txt.partial cannot be written: the disk is full" in refused(capsys, "translate", model, *common, *fp32)
    monkeypatch.setattr(ChunkTranslation, "__call__", work)
    before = (here / "out.txt.partial").read_bytes()
    for arguments, problem in (
        ((model, *common, *fp32, "--beam", "2"), "begun with another beam_size (4, now 2)"),
        ((model, *common, "--precision", "bf16"), "begun with another precision (fp32, now bf16)"),
        ((str(tiny_checkpoints / "tiny-en-es"), *common, *fp32), "begun with another model"),
        ((model, *common, *fp32, "--scores"), "begun with another output format (text, now scores)"),
        ((model, *common, *fp32, "--rerank", str(back)), "begun with another reranked by"),
    ):
        assert problem in refused(capsys, "translate", *arguments, "--resume")
    (here / "in.txt").write_text("ba\n" + "\n".join(LINES[1:]) + "\n")
    assert "begun with another input: its first 4 lines" in refused(capsys, "translate", model, *common, "--resume")
    assert (here / "out.txt.partial").read_bytes() == before


def test_every_option_of_decoding_is_part_of_an_outputs_identity_or_named_as_none(model: str) -> None:
    translator = LineTranslator([Path(model)], torch.device("cpu"), "fp32")
    options = {field.name for field in fields(DecodingOptions)}
    compared = options & identity(translator, DecodingOptions(), "text", 64).keys()
    assert not compared & NOT_WRITTEN
    assert compared | NOT_WRITTEN == options
    banned = identity(translator, DecodingOptions(no_repeat_ngram_size=2), "text", 64)
    assert banned["no_repeat_ngram_size"] == 2


def test_output_that_was_begun_with_an_option_is_not_gone_on_with_without_it(
    here: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    back = str(write_translator(here / "back", "en", "de"))
    monkeypatch.setattr(file_translation, "LEAST_CHUNK_LINES", 2)
    work = ChunkTranslation.__call__

    def interrupted(self: ChunkTranslation, chunk: LineChunk) -> file_translation.WrittenChunk:
        if chunk.first == 4:
            raise KeyboardInterrupt
        return work(self, chunk)

    monkeypatch.setattr(ChunkTranslation, "__call__", interrupted)
    assert run(model, "in.txt", "--out", "out.txt", "--rerank", back) == 130
    monkeypatch.setattr(ChunkTranslation, "__call__", work)
    common = ("translate", model, "in.txt", "--out", "out.txt", "--device", "cpu", "--precision", "fp32", "--resume")
    message = refused(capsys, *common)
    assert "begun with another reranked by (" in message
    assert ", now not given): go on with what it was begun with" in message
    assert main([*common, "--rerank", back]) == 0


def test_an_ensemble_translates_as_its_members_together(here: Path, model: str) -> None:
    assert run(model, model, "--ensemble", "--input", "in.txt", "--out", "out.txt") == 0
    checkpoint, ensemble = load_ensemble([Path(model), Path(model)], torch.device("cpu"))
    texts = [line for line in LINES if line.strip()]
    assert [line for line in output("out.txt") if line] == [
        t for t in translate(checkpoint, ensemble, texts, beam=4) if t
    ]


def test_the_other_direction_chooses_from_the_beam(
    here: Path, model: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = write_translator(tmp_path_factory.mktemp("back") / "back", "en", "de", backwards=True)
    rerank = ("--rerank", str(back), "--rerank-weight", "4")
    assert run(model, "in.txt", "--out", "out.txt", *rerank) == 0
    checkpoint, texts = checkpoints.read(Path(model)), [line for line in LINES if line.strip()]
    reranker = Reranker([back], torch.device("cpu"), ("de", "en"), 4.0)
    network = load_network(checkpoint)
    beams = hypotheses(checkpoint, network, texts, beam=4, n_best=4, rerank=reranker)
    chosen = iter(beams)
    assert output("out.txt") == [next(chosen)[0] if line.strip() else "" for line in LINES]
    assert output("out.txt") != expected(model, LINES, 4)
    assert run(model, "in.txt", "--out", "out.json", "--json", "--n-best", "3", *rerank) == 0
    objects = [json.loads(row) for row in output("out.json")]
    kept = [[each["text"] for each in o["n_best"]] for o in objects if o["source"].strip()]
    assert kept == [beam[:3] for beam in beams]
    for o in objects:
        scores = [each["score"] for each in o.get("n_best", [])]
        assert scores == sorted(scores, reverse=True)
    monkeypatch.setattr(file_translation, "LEAST_CHUNK_LINES", 2)
    assert run(model, "in.txt", "--out", "two.txt", *rerank, "--threads", "2") == 0
    assert output("two.txt") == output("out.txt")


def test_a_model_that_names_no_languages_is_reranked_in_those_of_the_options(
    here: Path, model: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = tmp_path_factory.mktemp("languages")
    nameless = str(write_translator(folders / "nameless", None, None))
    many = str(write_multilingual(folders / "many", [("en", "de"), ("en", "fr")]))
    weight = ("--rerank", many, "--rerank-weight", "10")
    assert run(model, "in.txt", "--out", "named.txt", *weight) == 0
    assert refused(capsys, "translate", nameless, "in.txt", *weight).endswith("(--source, --target).")
    assert run(nameless, "in.txt", "--out", "out.txt", *weight, "--source", "de", "--target", "en") == 0
    assert output("out.txt") == output("named.txt")


def test_a_line_in_parts_has_the_mean_of_the_reranked_scores(
    here: Path, model: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    back = write_translator(tmp_path_factory.mktemp("back") / "back", "en", "de", backwards=True)
    most = checkpoints.read(Path(model)).config.max_source_tokens
    sentences = [f"Ab {'ba ' * (most // 2)}abab.", f"Ba {'a ' * (most // 2)}abab."]
    (here / "in.txt").write_text(f"{' '.join(sentences)}\n{sentences[0]}\n{sentences[1]}\n", encoding="utf-8")
    rerank = ("--rerank", str(back), "--rerank-weight", "4", "--max-new-tokens", "6", "--json")
    assert run(model, "in.txt", "--out", "out.json", *rerank) == 0
    both, first, second = map(json.loads, output("out.json"))
    assert both["parts"] == 2
    assert both["text"] == f"{first['text']} {second['text']}"
    assert both["score"] == pytest.approx((first["score"] + second["score"]) / 2, abs=1e-3), "six tokens each"


def test_mistakes_are_one_sentence(
    here: Path, model: str, tiny_checkpoints: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def of(*arguments: str) -> str:
        return refused(capsys, "translate", *arguments, "--device", "cpu", "--precision", "fp32")

    assert of("nowhere", "in.txt") == "nowhere/config.json is missing: nowhere is not a checkpoint."
    assert of("in.txt") == "in.txt is a file, not a checkpoint folder."
    (here / "hub").mkdir()
    (here / "hub" / "config.json").write_text('{"model_type": "marian"}')
    assert "hub/config.json is of a marian model in Hugging Face's form: `parlance import`" in of("hub")
    assert "only a translator can translate" in of(str(tiny_checkpoints / "tiny-lyrics"), "in.txt")
    assert of(model, "none.txt") == "none.txt does not exist."
    assert "several models translate with --ensemble" in of(model, model)
    assert "give texts with --input" in of(model, "in.txt", "--ensemble")
    message = of(model, "in.txt", "--beam", "65", "--length-penalty", "11", "--max-new-tokens", "0", "--resume")
    for part in ("--beam must be", "--length-penalty must", "--max-new-tokens must", "--resume needs --out"):
        assert part in message
    assert of(model, "--n-best", "100") == "This cannot start: --n-best must be at least 1 and at most 64, not 100."
    assert of(model, "--outt", "x") == "This cannot start: --outt is no option, did you mean --out?"
    assert "--num-beams is no option, did you mean --beam N?" in of(model, "--num-beams", "4")
    assert "--rerank needs a --beam of at least 2" in of(model, "in.txt", "--beam", "1", "--rerank", model)
    assert "and not en → de" in of(model, "in.txt", "--rerank", model)
    assert "--rerank-weight is of --rerank" in of(model, "in.txt", "--rerank-weight", "1")
    for weight in ("-1", "nan", "11"):
        assert "--rerank-weight must lie in 0..10" in of(
            model, "in.txt", "--rerank", model, f"--rerank-weight={weight}"
        )
    assert "--n-best 3 needs a --beam of at least 3, not 2" in of(model, "in.txt", "--beam", "2", "--n-best", "3")
    (here / "latin.txt").write_bytes("ab\nb\xe4\n".encode("latin-1"))
    assert "latin.txt is not valid UTF-8: line 2" in of(model, "latin.txt", "--out", "out.txt")
    (here / "there.txt").write_text("kept\n")
    assert of(model, "in.txt", "--out", "there.txt") == "there.txt exists; choose another --out."
    finished = "there.txt is finished: there is nothing to go on with."
    assert of(model, "in.txt", "--out", "there.txt", "--resume") == finished
    assert of(model, "in.txt", "--out", str(here)) == f"{here} is a folder; --out names a file."
    assert not list(here.glob("*.partial*"))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "training", "translate", *arguments, "--device", "cpu", "--precision", "fp32"]


@pytest.mark.slow
def test_a_slow_pipe_has_its_answers_while_it_is_open(model: str) -> None:
    """Three lines, each sent after the answer to the one before."""
    with subprocess.Popen(command(model), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        for line, answer in zip(LINES[:3], expected(model, LINES[:3], 4), strict=True):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode() == f"{answer}\n"
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.slow
def test_a_closed_reader_and_ctrl_c_leave_no_traceback(here: Path, model: str) -> None:
    (here / "long.txt").write_text("ab ba\nb a\n" * 20_000)
    piped = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" | head -1', "bash", *command(model, "long.txt", "--threads", "2")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert piped.returncode == 141
    assert piped.stdout == expected(model, ["ab ba"], 4)[0] + "\n"
    assert "Traceback" not in piped.stderr
    process = subprocess.Popen(
        command(model, "long.txt", "--out", "out.txt", "--threads", "2"),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    while not (here / "out.txt.partial").exists() or not (here / "out.txt.partial").stat().st_size:
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors and "--resume goes on" in errors


@pytest.mark.slow
def test_a_killed_command_goes_on(here: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "long.txt").write_text("".join(f"{'ab ' * (i % 7 + 1)}b\n" for i in range(20_000)))
    arguments = (model, "long.txt", "--threads", "2", "--beam", "1")
    assert subprocess.run(command(*arguments, "--out", "whole.txt"), check=False).returncode == 0
    process = subprocess.Popen(command(*arguments, "--out", "out.txt"))
    while not (here / "out.txt.partial").exists() or not (here / "out.txt.partial").stat().st_size:
        time.sleep(0.02)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while subprocess.run(command(*arguments, "--out", "out.txt", "--resume"), check=False).returncode:
        assert time.monotonic() < deadline  # the pool's processes hold no lock and end soon
    assert (here / "out.txt").read_bytes() == (here / "whole.txt").read_bytes()


def test_a_redirected_file_is_read_from_where_it_stands(
    here: Path, model: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with (here / "in.txt").open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        assert run(model, "--out", "out.txt", "--beam", "1") == 0
    assert output("out.txt") == expected(model, LINES, 1)
    reading, writing = os.pipe()
    os.write(writing, (here / "in.txt").read_bytes())
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
        assert run(model, "--out", "piped.txt", "--beam", "1") == 0
    assert output("piped.txt") == output("out.txt")
    with (here / "in.txt").open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        assert run(model, "-", "--out", "-", "--beam", "1") == 0
    assert capfdbinary.readouterr().out == (here / "out.txt").read_bytes()


@pytest.mark.parametrize("threads", ["1", "2"])
def test_lines_before_a_broken_one_of_a_pipe_are_translated(
    here: Path,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    threads: str,
) -> None:
    reading, writing = os.pipe()
    os.write(writing, "\n".join(LINES).encode() + b"\na \xff b\nab\n")
    os.close(writing)
    monkeypatch.setattr(file_translation, "MOST_CHUNK_LINES", 4)
    with os.fdopen(reading, "rb") as pipe:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
        assert run(model, "--beam", "1", "--threads", threads) == 2
    told = capfdbinary.readouterr()
    assert told.out.decode().splitlines() == expected(model, LINES, 1)
    assert told.err.decode().count("\n") == 1 and "line 11 has a broken character" in told.err.decode()


def test_a_full_disk_is_told_with_the_way_out_that_there_is(
    here: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        full = SimpleNamespace(write=no_space, flush=no_space, isatty=lambda: False)
        patched.setattr(sys, "stdout", SimpleNamespace(buffer=full))
        message = refused(capsys, "translate", model, "in.txt", "--device", "cpu", "--precision", "fp32")
    assert message == "Standard output cannot be written: the disk is full; free some space, then begin anew."
    monkeypatch.setattr(Path, "replace", no_space)  # of the first record of the progress
    message = refused(capsys, "translate", model, "in.txt", "--device", "cpu", "--out", "out.txt")
    assert "go on with --resume, or anew if nothing was saved" in message
    assert not list(here.glob("out.txt*"))


@pytest.mark.parametrize(
    ("rate", "shown"),
    [(1234.4, "1,234"), (10.2, "10"), (9.96, "10"), (9.64, "9.6"), (5 / 27.4, "0.18"), (0.0042, "0.0042"), (0.0, "0")],
)
def test_slow_rates_keep_two_digits(rate: float, shown: str) -> None:
    assert shown_rate(rate) == shown
