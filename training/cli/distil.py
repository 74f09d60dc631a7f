"""The `distil` command: a teacher's translations of a corpus, for a student to learn from."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, get_args

import sacrebleu
import torch
from tqdm import tqdm

from models.interface import Precision
from training.cli.command_options import PAIRS, add_columns, add_device, device_of
from training.config.run_config import raise_all
from training.data.corpus_loading import parse_columns, read_corpora, stem_suffix
from training.data.distillation import (
    ChosenTranslation,
    Teacher,
    split_into_chunks,
    translate_chunks,
)
from training.errors import TrainingError
from training.evaluation.scores import MAX_BEAM_SIZE

if TYPE_CHECKING:
    from training.cli.command_options import Commands


def add_parser(commands: Commands) -> None:
    command = commands.add_parser("distil", help="have a translator translate a corpus for another one to learn from")
    command.set_defaults(run=run)
    command.add_argument("folder", type=Path, help="the checkpoint folder of the teacher")
    command.add_argument("--train", metavar="PAIRS", nargs="+", action="extend", help=PAIRS)
    add_columns(command)
    command.add_argument("--out", type=Path, metavar="FILE", help="the pairs to write, .jsonl or .jsonl.gz")
    command.add_argument("--beam", type=int, default=5, help=f"hypotheses to choose from, 1 to {MAX_BEAM_SIZE}")
    command.add_argument(
        "--precision", choices=get_args(Precision), default="fp32", help="int8 is the fastest on most CPUs"
    )
    command.add_argument("--processes", type=int, default=1, metavar="N", help="on a CPU, one for each core")
    add_device(command)


def run(arguments: argparse.Namespace) -> Mapping[str, object]:
    """How much was written, and how near it is to the references."""
    device = device_of(arguments)
    raise_all(_problems(arguments, device))
    teacher = Teacher(arguments.folder, device, arguments.beam, arguments.precision)
    config = teacher.checkpoint.config
    # keys by language: a corpus of the other direction's teacher is then read the right way around, too
    languages = (config.source_language or "source", config.target_language or "target")
    pairs = read_corpora(arguments.train, languages, parse_columns(arguments.columns))
    for note in pairs.reported().notes:
        print(f"note: {note}", file=sys.stderr)
    fitting = [i for i, source in enumerate(pairs.sources) if teacher.fits(source)]
    if not fitting:
        raise TrainingError(f"{pairs.origin} has no source that the teacher can read.")
    started = time.monotonic()
    translations: list[ChosenTranslation] = []
    with _written_aside(arguments.out) as file:
        with tqdm(total=len(fitting), desc="translating", mininterval=0.3 if sys.stderr.isatty() else 15.0) as bar:
            chunks = split_into_chunks(pairs, fitting)
            for chunk in translate_chunks(teacher, chunks, arguments.processes):
                translations += [chosen for chosen in chunk if chosen[2].strip()]  # white space teaches nothing
                bar.update(len(chunk))
        translations.sort()  # in the order of the corpus
        for index, _, text in translations:
            row = dict(zip(languages, (pairs.sources[index], text), strict=True))
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    seconds = round(time.monotonic() - started, 1)
    references = [[pairs.targets[index] for index, _, _ in translations]]
    metric, bleu = sacrebleu.BLEU(), {"bleu_of_first": 0.0, "bleu": 0.0}
    for place, name in enumerate(bleu, start=1):
        texts = [str(chosen[place]) for chosen in translations]
        bleu[name] = round(metric.corpus_score(texts, references).score, 2) if texts else 0.0
    signature = str(metric.get_signature()) if translations else ""
    too_long = len(pairs) - len(fitting)
    return {"pairs": len(translations), **bleu, "signature": signature, "too_long": too_long, "seconds": seconds}


def _problems(arguments: argparse.Namespace, device: torch.device) -> Iterator[str]:
    yield "" if arguments.train else "--train is missing: the pairs to translate"
    yield "" if 1 <= arguments.beam <= MAX_BEAM_SIZE else f"--beam must be 1 to {MAX_BEAM_SIZE}, not {arguments.beam}"
    yield "" if arguments.processes >= 1 else f"--processes must be at least 1, not {arguments.processes}"
    if arguments.processes > 1 and device.type != "cpu":
        yield "--processes is for CPUs: one process keeps a GPU busy"
    out = arguments.out
    if out is None:
        yield "--out is missing: the file to write"
    elif stem_suffix(out) != ".jsonl":
        yield f"--out must end in .jsonl or .jsonl.gz, not be {out}"
    elif out.exists():
        yield f"{out} exists; choose another --out"


@contextmanager
def _written_aside(path: Path) -> Iterator[TextIO]:
    """The file appears whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.part")
    try:
        with (
            gzip.open(aside, "wt", encoding="utf-8") if path.suffix == ".gz" else aside.open("w", encoding="utf-8")
        ) as file:
            yield file
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
