"""python -m training export: what it prints, and how it refuses."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tiny import write_lyricist, write_translator
from tests.training.cli.commands import refused
from tests.training.exporters.exported import write_random
from training.__main__ import main
from training.errors import TrainingError
from training.exporters import ctranslate2_folder, transformers_folder
from training.exporters.export_checkpoint import export_checkpoint

OPUS = {"tied": "all", "positions": "marian", "output_bias": True, "activation": "silu"}
DEFAULT = {"tied": "all", "norm": "pre"}


def test_it_prints_one_json_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = write_random(tmp_path / "ours", **DEFAULT)
    assert main(["export", str(checkpoint.folder), "--to", "transformers", "--out", str(tmp_path / "out")]) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["form"] == "pegasus"
    assert printed["out"] == str(tmp_path / "out")
    assert printed["files"] == sorted(path.name for path in (tmp_path / "out").iterdir())
    tensors = torch.nn.Module.parameters(checkpoint_network(checkpoint))
    assert printed["parameters"] == sum(tensor.numel() for tensor in tensors)
    assert not list(tmp_path.glob(".out*"))


def checkpoint_network(checkpoint: Any) -> Any:
    from models.networks.loading import load_network

    return load_network(checkpoint)


@pytest.mark.parametrize(
    ("options", "form", "reason"),
    [
        (DEFAULT, "marian", "(norm = pre), and its Pegasus has them: use --to pegasus or transformers."),
        (OPUS, "pegasus", "(norm = post), and its Marian has them: use --to marian or transformers."),
        ({"norm": "pre", "tied": "output"}, "transformers", "train with tied = all."),
        ({"heads": 3, "head_width": 8}, "marian", "3 heads of 8 in a width of 32"),
        ({"heads": 3, "head_width": 8}, "ctranslate2", "3 heads of 8 in a width of 32"),
        ({"attention_scale": 0.25}, "ctranslate2", "attention_scale (0.25), only 1/sqrt(head_width): use --to onnx."),
        ({"norm_epsilon": 1e-6}, "transformers", "norm_epsilon (1e-06), only 1e-05: use --to ctranslate2"),
    ],
)
def test_what_a_form_lacks_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any], form: str, reason: str
) -> None:
    folder = write_random(tmp_path / "ours", **options).folder
    message = refused(capsys, "export", str(folder), "--to", form, "--out", str(tmp_path / "out"))
    assert reason in message
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("form", ["marian", "ctranslate2"])
def test_a_lyricist_goes_to_onnx_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    folder = write_lyricist(tmp_path / "song")
    message = refused(capsys, "export", str(folder), "--to", form, "--out", str(tmp_path / "out"))
    assert "is a lyricist" in message
    assert message.endswith("use --to onnx.")


def test_words_are_no_pieces_of_sentencepiece(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_translator(tmp_path / "words", "de", "en")
    message = refused(capsys, "export", str(folder), "--to", "marian", "--out", str(tmp_path / "out"))
    assert "has a tokenizer of words: use --to ctranslate2 or --to onnx" in message


def test_an_edited_network_is_not_exported_without_its_edit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from models.networks.transformer import FeedForward

    folder = write_random(tmp_path / "ours", **DEFAULT).folder
    forward = FeedForward.forward
    monkeypatch.setattr(FeedForward, "forward", lambda self, x: 2 * forward(self, x))
    for form in ("transformers", "ctranslate2"):
        message = refused(capsys, "export", str(folder), "--to", form, "--out", str(tmp_path / "out"))
        assert "FeedForward.forward" in message
        assert "use --to onnx" in message


def test_options_are_refused_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "export", "m") == (
        "The model cannot be exported: --to is missing: one of transformers, marian, pegasus, ctranslate2, onnx;"
        " --out is missing: the folder to write."
    )
    assert "--to tensorflow is none of" in refused(capsys, "export", "m", "--to", "tensorflow", "--out", "x")
    message = refused(capsys, "export", "m", "--to", "onnx", "--out", "x", "--quantization", "int8")
    assert "--quantization is for --to ctranslate2" in message
    message = refused(capsys, "export", "m", "--to", "ctranslate2", "--out", "x", "--quantization", "int4")
    assert "--quantization int4 is none of int8" in message


@pytest.mark.parametrize(
    ("given", "meant"),
    [("ct2", "ctranslate2"), ("ctranslate", "ctranslate2"), ("CTranslate2", "ctranslate2"), ("hf", "transformers")],
)
def test_usual_names_of_forms_are_refused_with_ours(capsys: pytest.CaptureFixture[str], given: str, meant: str) -> None:
    message = refused(capsys, "export", "m", "--to", given, "--out", "x", "--quantization", "int8")
    assert message == (
        f"The model cannot be exported: --to {given} is none of transformers, marian, pegasus, ctranslate2, onnx,"
        f" did you mean {meant}?"
    )


def test_an_output_folder_with_files_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint, out = write_random(tmp_path / "ours", **DEFAULT), tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("kept")
    command = ["export", str(checkpoint.folder), "--to", "pegasus", "--out"]
    assert "exists and holds files; choose another --out." in refused(capsys, *command, str(out))
    assert "is a file; --out names a folder." in refused(capsys, *command, str(out / "mine.txt"))
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    (out / "mine.txt").unlink()
    assert main([*command, str(out)]) == 0


def test_a_missing_library_and_a_folder_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    message = refused(capsys, "export", str(tmp_path), "--to", "marian", "--out", str(tmp_path / "out"))
    assert "is not a checkpoint" in message
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    message = refused(capsys, "export", str(tmp_path), "--to", "onnx", "--out", str(tmp_path / "out"))
    assert message == "--to onnx needs onnxscript: pip install -e '.[export]'."


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = write_random(tmp_path / "ours", **DEFAULT)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transformers_folder, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        export_checkpoint(checkpoint.folder, "pegasus", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []


def test_padding_at_the_end_of_a_source_is_refused_by_ctranslate2(tmp_path: Path) -> None:
    checkpoint = write_random(tmp_path / "ours", rules={"source_suffix": (0,)}, **DEFAULT)
    with pytest.raises(TrainingError, match="CTranslate2 attends to every token: use --to onnx"):
        export_checkpoint(checkpoint.folder, "ctranslate2", tmp_path / "out")
    with pytest.raises(TrainingError, match="ends every source with its end token"):
        export_checkpoint(checkpoint.folder, "transformers", tmp_path / "out")


def test_quantized_weights_are_smaller(tmp_path: Path) -> None:
    checkpoint = write_random(tmp_path / "ours", **DEFAULT)
    sizes = {}
    for quantization in (None, "float16", "int8"):
        out = tmp_path / str(quantization)
        export_checkpoint(checkpoint.folder, "ctranslate2", out, quantization=quantization)
        sizes[quantization] = (out / "model.bin").stat().st_size
    assert sizes[None] > sizes["float16"] > sizes["int8"]
    assert set(sizes) - {None} <= set(ctranslate2_folder.QUANTIZATIONS)
