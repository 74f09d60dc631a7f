"""The commands that convert models. import-marian makes checkpoints of OPUS-MT and Marian models, of a folder or of the
Hugging Face Hub; export writes a checkpoint in the form of another program."""

from __future__ import annotations

import argparse
import difflib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from models.child_process import ParentChannel
from models.model_names import split_names
from training.cli.command_options import model_folder
from training.cli.commands import FOREIGN_FORMS
from training.errors import TrainingError, raise_all
from training.exporters.ctranslate2_folder import QUANTIZATIONS
from training.exporters.exportable import Form
from training.importers.import_progress import ConsoleProgress, ImportProgress, LineProgress

FORMS = get_args(Form)


def add_import_marian(command: argparse.ArgumentParser) -> None:
    text = "a folder, or a name on the hub: Helsinki-NLP/opus-mt-de-en, de-en, or the address of its page; or everyday"
    command.add_argument("names", nargs="+", metavar="MODEL", help=text)
    place = command.add_mutually_exclusive_group()
    place.add_argument("--out", type=Path, metavar="FOLDER", help="the checkpoint folder to write, for one model")
    text = "the folder of checkpoints that gets a folder for each model, named like it; models that are there are kept"
    place.add_argument("--into", type=Path, metavar="FOLDER", help=f"{text} (default, without --out: checkpoints)")
    command.add_argument("--update", action="store_true", help="with --into: import again what has changed on the hub")
    command.add_argument("--source", help="source language code, such as de (default: as the folder says)")
    text = "target language code, such as en (default: as the folder says); of a model with several also es,fr or all"
    command.add_argument("--target", help=text)
    command.add_argument(
        "--prefix",
        help="of a model with several target languages: the token for one, such as '>>deu<<'"
        " (default: the one that means --target); none: each text starts with its own",
    )
    # of a server that has started this process: the descriptor of a socket, for `models.child_process`
    command.add_argument("--progress-to", help=argparse.SUPPRESS)


def run_import_marian(arguments: argparse.Namespace) -> Mapping[str, object]:
    """Imports the named models. With --into it tries every model before it raises the gravest error."""
    from training.importers.marian.convert_checkpoint import import_marian
    from training.importers.model_import import import_models

    if arguments.out is None and arguments.into is None:
        arguments.into = Path("checkpoints")
    raise_all(_contradictions(arguments))
    write = None if arguments.progress_to is None else message_writer(arguments.progress_to)
    progress: ImportProgress = ConsoleProgress() if write is None else LineProgress(write)
    if not _names(arguments.names):
        raise TrainingError("Name a model to import, such as Helsinki-NLP/opus-mt-de-en or de-en.")
    if arguments.into is not None:
        outcome = import_models(_names(arguments.names), arguments.into, progress, update=arguments.update)
        for error in outcome.errors:
            if error is not outcome.gravest:
                progress.note(f"error: {error}")
        if outcome.gravest is not None:
            raise outcome.gravest
        models = ({"model": each.given, "out": str(each.folder), "imported": each.imported} for each in outcome.models)
        result: dict[str, object] = {"models": list(models)}
        if write is not None:
            write(result)
        return result
    languages = {name: getattr(arguments, name) for name in ("source", "target", "prefix")}
    return import_marian(arguments.names[0], arguments.out, **languages, progress=progress)


def message_writer(descriptor: str) -> Callable[[dict[str, object]], None]:
    """Writes messages to the server that has started this process."""
    channel = ParentChannel[None, dict[str, object]](lambda _: [], socket.socket(fileno=int(descriptor)))
    return lambda line: channel.send([line])


def _names(given: Sequence[str]) -> list[str]:
    """Each argument is a folder, or a list of names with commas between them."""
    names = dict[str, None]()
    for part in given:
        names |= dict.fromkeys([part] if part and Path(part).is_dir() else split_names(part))
    return list(names)


def _contradictions(arguments: argparse.Namespace) -> Iterator[str]:
    if arguments.out is not None and len(arguments.names) > 1:
        yield "--out is for one model; give --into for several"
    if arguments.out is not None and arguments.update:
        yield "--update is for --into"
    for name in ("source", "target", "prefix"):
        if arguments.into is not None and getattr(arguments, name) is not None:
            yield f"--{name} is for --out"


def add_export(command: argparse.ArgumentParser) -> None:
    command.add_argument("folder", type=model_folder, metavar="FOLDER", help="the checkpoint folder, or everyday")
    text = "transformers chooses marian or pegasus by the network's layer norms; lyricists go to onnx"
    command.add_argument("--to", metavar="FORM", help=f"one of {', '.join(FORMS)}; {text}")
    command.add_argument("--out", type=Path, metavar="DIR", help="the folder to write")
    text = f"of CTranslate2's weights: {', '.join(QUANTIZATIONS)} (default: float32)"
    command.add_argument("--quantization", metavar="TYPE", help=text)
    command.set_defaults(refusal="The model cannot be exported")


def run_export(arguments: argparse.Namespace) -> Mapping[str, object]:
    from training.exporters.export_checkpoint import export_checkpoint

    form, quantization = arguments.to, arguments.quantization
    problems = []
    listed = ", ".join(FORMS)
    if form is None:
        problems.append(f"--to is missing: one of {listed}")
    elif form not in FORMS:
        problems.append(f"--to {form} is none of {listed}{_form_suggestion(form)}")
    if arguments.out is None:
        problems.append("--out is missing: the folder to write")
    if quantization is not None and quantization not in QUANTIZATIONS:
        problems.append(f"--quantization {quantization} is none of {', '.join(QUANTIZATIONS)}")
    elif quantization is not None and form in FORMS and form != "ctranslate2":
        problems.append("--quantization is for --to ctranslate2; the other forms are written in fp32")
    raise_all(problems, arguments.refusal)
    return export_checkpoint(arguments.folder, form, arguments.out, quantization=quantization)


def _form_suggestion(given: str) -> str:
    """ ", did you mean ctranslate2?", or "" if no form comes near."""
    spelled = given.lower().replace("_", "-")
    near = difflib.get_close_matches(spelled, [*FORMS, *FOREIGN_FORMS], 1, 0.75)
    return f", did you mean {FOREIGN_FORMS.get(near[0], near[0])}?" if near else ""
