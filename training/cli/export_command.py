"""export: a checkpoint in the form of another program."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from training.config.run_config import raise_all
from training.exporters.ctranslate2_folder import QUANTIZATIONS
from training.exporters.exportable import Form

FORMS = get_args(Form)


def add_export(command: argparse.ArgumentParser) -> None:
    command.add_argument("folder", type=Path, metavar="FOLDER", help="the checkpoint folder")
    text = "transformers chooses marian or pegasus by the network's layer norms; lyricists go to onnx"
    command.add_argument("--to", metavar="FORM", help=f"one of {', '.join(FORMS)}; {text}")
    command.add_argument("--out", type=Path, metavar="DIR", help="the folder to write")
    text = f"of CTranslate2's weights: {', '.join(QUANTIZATIONS)} (default: float32)"
    command.add_argument("--quantization", metavar="TYPE", help=text)


def run_export(arguments: argparse.Namespace) -> Mapping[str, object]:
    from training.exporters.export_checkpoint import export_checkpoint

    form, quantization = arguments.to, arguments.quantization
    problems = []
    if form not in FORMS:
        listed = ", ".join(FORMS)
        problems.append(f"--to is missing: one of {listed}" if form is None else f"--to {form} is none of {listed}")
    if arguments.out is None:
        problems.append("--out is missing: the folder to write")
    if quantization is not None and quantization not in QUANTIZATIONS:
        problems.append(f"--quantization {quantization} is none of {', '.join(QUANTIZATIONS)}")
    elif quantization is not None and form != "ctranslate2":
        problems.append("--quantization is for --to ctranslate2; the other forms are written in fp32")
    raise_all(problems)
    return export_checkpoint(arguments.folder, form, arguments.out, quantization=quantization)
