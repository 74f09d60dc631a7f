"""`training distil`: pairs that a teacher translates, for a student to learn from."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import torch

from models.decoding.options import DecodingOptions
from training.cli.command_options import PAIRS, add_columns, add_device, device_of, model_folder
from training.cli.translate_command import add_pair, add_precision
from training.data.corpus_files import stem_suffix
from training.data.corpus_loading import PAIR_FORMATS, is_monolingual, parse_columns, read_corpora
from training.errors import raise_all
from training.evaluation.model_outputs import MAX_BEAM_SIZE
from training.translation.distillation import (
    Teacher,
    TextTeacher,
    distil_pairs,
    languages_of,
    translate_text,
)
from training.translation.line_input import LineInput
from training.translation.line_translator import LineTranslator
from training.translation.resumable_output import check_output_file, read_record

RESUME = "go on with the unfinished --out of a command that was stopped or killed"
BEAM = 5


def add_distil(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Have a teacher translate pairs or a text, for a student to learn from. The pairs serve students of both"
        " directions: for back-translation give a teacher en→de and English text, and train de→en on the result."
    )
    command.add_argument("folder", type=model_folder, help="the checkpoint folder of the teacher")
    command.add_argument("folders", type=model_folder, nargs="*", default=[], help="with --ensemble: more of them")
    text = f"{PAIRS}; a file of one column is a text"
    command.add_argument("--train", metavar="PAIRS", nargs="+", action="extend", help=text)
    text = "monolingual text, one sentence a line, each file also .gz"
    command.add_argument("--text", metavar="FILE", nargs="+", action="extend", help=text)
    add_columns(command)
    command.add_argument("--out", "-o", type=Path, metavar="FILE", help="the pairs to write, .jsonl or .jsonl.gz")
    command.add_argument("--resume", action="store_true", help=RESUME)
    command.add_argument("--ensemble", action="store_true", help="several folders are one teacher together")
    text = f"hypotheses of the teacher's search, 1 to {MAX_BEAM_SIZE} (default: {BEAM})"
    command.add_argument("--beam", "--beam-size", type=int, metavar="N", default=BEAM, help=text)
    add_pair(command)
    add_precision(command, None)
    text = "on a CPU (default: one for each core; one for pairs)"
    command.add_argument("--processes", type=int, metavar="N", help=text)
    add_device(command)


def run_distil(arguments: argparse.Namespace) -> Mapping[str, object]:
    """Translates pairs or a text with a teacher; returns counts and, of pairs, their BLEU against the references."""
    device = device_of(arguments)
    given = arguments.train or []
    one_column = [name for name in given if is_monolingual(name)]
    texts, corpora = [*one_column, *(arguments.text or [])], [name for name in given if name not in one_column]
    problems = [*_problems(arguments, device), *_text_problems(arguments.text or [])]
    if not texts and not corpora:
        problems.append("--train (pairs) or --text (a text in the source language) is missing")
    if texts and corpora:
        problems.append(f"{texts[0]} is a text and {corpora[0]} holds pairs: translate them one after the other")
    raise_all(problems)
    check_output_file(arguments.out, resume=arguments.resume)
    if texts:
        cores = torch.get_num_threads() if device.type == "cpu" else 1
        translator, processes = _translator(arguments, device, arguments.processes or cores)
        teacher = TextTeacher(translator, DecodingOptions(beam_size=arguments.beam))
        size = cast(int, _recorded(arguments).get("chunk size")) if arguments.resume else None
        lines = LineInput([Path(file) for file in texts], sys.stdin.buffer)
        return translate_text(teacher, lines, arguments.out, processes=processes, resume=arguments.resume, size=size)
    translator, processes = _translator(arguments, device, arguments.processes or 1)
    pairs = read_corpora(corpora, languages_of(translator), parse_columns(arguments.columns))
    for note in pairs.reported().notes:
        print(f"note: {note}", file=sys.stderr)
    teacher_of_pairs = Teacher(translator, arguments.beam)
    return distil_pairs(teacher_of_pairs, pairs, arguments.out, processes=processes, resume=arguments.resume)


def _text_problems(files: Sequence[str]) -> Iterator[str]:
    """Problems of files that the user calls texts and that hold pairs."""
    for path in map(Path, files):
        suffix = stem_suffix(path)
        if suffix in PAIR_FORMATS or (suffix == ".tsv" and path.is_file() and not is_monolingual(str(path))):
            yield f"{path} is read as pairs, not as a text with a sentence on each line: give it with --train"


def _translator(arguments: argparse.Namespace, device: torch.device, processes: int) -> tuple[LineTranslator, int]:
    if processes > 1 and torch.get_num_threads() < 2 * processes:
        torch.set_num_threads(1)  # of each process
    precision = arguments.precision
    if precision in ("auto", None) and arguments.resume:
        precision = _recorded(arguments).get("precision")
    pair = arguments.source, arguments.target
    return LineTranslator([arguments.folder, *arguments.folders], device, precision, pair), processes


def _recorded(arguments: argparse.Namespace) -> Mapping[str, object]:
    return cast(Mapping[str, object], read_record(arguments.out)["identity"])


def _problems(arguments: argparse.Namespace, device: torch.device) -> Iterator[str]:
    if not 1 <= arguments.beam <= MAX_BEAM_SIZE:
        yield f"--beam must be 1 to {MAX_BEAM_SIZE}, not {arguments.beam}"
    processes = 1 if arguments.processes is None else arguments.processes
    if processes < 1:
        yield f"--processes must be at least 1, not {processes}"
    if processes > 1 and device.type != "cpu":
        yield "--processes is for CPUs: one process keeps a GPU busy"
    if arguments.folders and not arguments.ensemble:
        yield f"{arguments.folders[0]} is one folder too many: several are a teacher with --ensemble"
    if arguments.out is None:
        yield "--out is missing: the file to write"
    elif stem_suffix(arguments.out) != ".jsonl":
        yield f"--out must end in .jsonl or .jsonl.gz, not be {arguments.out}"
