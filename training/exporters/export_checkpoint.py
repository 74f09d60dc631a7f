"""Exports a checkpoint folder to a form that another program loads."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import Transformer
from models.tokenizer import MarianTokenizer
from training.errors import TrainingError
from training.exporters.ctranslate2_folder import write_ctranslate2_folder
from training.exporters.exportable import Exportable, Form, read_exportable
from training.exporters.onnx_graphs import OPSET, write_graphs
from training.exporters.sentencepiece_files import pieces_of, write_json, write_tokenizer_files
from training.exporters.transformers_folder import (
    check_form,
    form_of_transformers,
    generation_settings,
    transformers_config,
    write_transformers_folder,
)
from training.exporters.usage import has_one_vocabulary, notes_on, write_readme

LIBRARIES_OF: dict[Form, tuple[str, ...]] = {"ctranslate2": ("ctranslate2",), "onnx": ("onnxscript", "onnxruntime")}


def export_checkpoint(folder: Path, form: Form, out: Path, *, quantization: str | None = None) -> dict[str, object]:
    """Writes `out` and returns a summary. quantization: of CTranslate2's weights. TrainingError if the form lacks
    something that the model has, if a library is missing, or if `out` has files."""
    started = time.monotonic()
    _check_output(out)
    for library in LIBRARIES_OF.get(form, ()):
        if importlib.util.find_spec(library) is None:
            raise TrainingError(f"--to {form} needs {library}: pip install -e '.[export]'.")
    model = read_exportable(folder)
    if form == "transformers":
        form = form_of_transformers(model.transformer(form)[1])
    with _written_aside(out) as staging:
        notes = []
        if form == "ctranslate2":
            write_ctranslate2_folder(model, staging, quantization)
        elif form == "onnx":
            notes += write_onnx_folder(model, staging)
        else:
            write_transformers_folder(model, staging, form)
        notes += notes_on(model, form)
        write_readme(model, staging, form, notes)
    files = sorted(path.name for path in out.iterdir())
    summary: dict[str, object] = {"form": form, "out": str(out), "files": files}
    if form == "onnx":
        summary["opset"] = OPSET
    return {
        **summary,
        "parameters": sum(parameter.numel() for parameter in model.network.parameters()),
        "notes": notes,
        "seconds": round(time.monotonic() - started, 2),
    }


def write_onnx_folder(model: Exportable, folder: Path) -> list[str]:
    """Graphs and tokenizers; for a network that transformers knows, its config.json too, as Optimum needs it. Returns
    sentences on what is left out."""
    write_graphs(model, folder)
    config, tokenizers = model.config, model.checkpoint.tokenizers
    rows = {"target": tokenizers["target"].size}
    if isinstance(model.network, Transformer):
        shape = model.network.config
        rows = {"source": shape.source_vocabulary, "target": shape.target_vocabulary}
        write_json(folder / "generation_config.json", generation_settings(model, shape.pad))
    if isinstance(model.network, RecurrentLanguageModel) or has_one_vocabulary(model):
        names = {"vocab.json": "target"}
    else:
        names = {"vocab.json": "source", "target_vocab.json": "target"}
    for name, side in names.items():
        pieces = pieces_of(tokenizers[side], rows[side])
        write_json(folder / name, {piece: token for token, piece in enumerate(pieces)})
    for side, tokenizer in tokenizers.items():
        if isinstance(model_file := getattr(tokenizer, "model", None), bytes):
            joins = tokenizer.writer if side == "target" and isinstance(tokenizer, MarianTokenizer) else None
            (folder / f"{side}.spm").write_bytes(joins or model_file)
    if config.kind == "lyrics":
        return []
    try:
        _, shape = model.transformer("transformers")
        form = form_of_transformers(shape)
        check_form(shape, form)
        write_tokenizer_files(model, folder, (shape.source_vocabulary, shape.target_vocabulary), form)
        write_json(folder / "config.json", transformers_config(model, shape, form))
    except TrainingError as error:
        return [f"There is no config.json, with which Optimum would load the folder: {error}"]
    return []


def _check_output(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise TrainingError(f"{out} is a file; --out names a folder.")
    if out.is_dir() and any(out.iterdir()):
        raise TrainingError(f"{out} exists and holds files; choose another --out.")


@contextlib.contextmanager
def _written_aside(out: Path) -> Iterator[Path]:
    """A folder beside `out` that takes its place at the end: the export is complete or absent."""
    aside = out.with_name(f".{out.name}.part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        try:
            yield aside
        except SafetensorError as error:  # safetensors' error for a failed write
            raise OSError(f"{out} could not be written ({error})") from error
        if out.exists():
            out.rmdir()
        aside.replace(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
