"""`training translate`: translates files, standard input and pipes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast, get_args

import torch

from models.decoding.options import DecodingOptions, OptionError
from models.interface import Precision
from training.cli.command_options import add_device, device_of, model_folder
from training.errors import CannotStart, TrainingError, os_error_reason, program, raise_all
from training.evaluation.model_outputs import MAX_BEAM_SIZE
from training.evaluation.reranking import DEFAULT_WEIGHT
from training.translation.file_translation import OutputFormat, chunk_lines, say, translate_lines
from training.translation.line_input import LineInput
from training.translation.line_translator import LineTranslator
from training.translation.resumable_output import check_output_file, read_record

DEFAULT_BEAM = 4  # as the server's
MAX_RERANK_WEIGHT = 10
EXAMPLES = """\
examples:
  {program} translate checkpoints/my-de-en < in.txt > out.txt
  {program} translate checkpoints/my-de-en a.txt b.txt.gz --out out.txt --resume
  {program} translate m1 m2 m3 --ensemble --input in.txt --n-best 5 > lists.txt
  {program} translate checkpoints/my-de-en --rerank checkpoints/my-en-de < in.txt > out.txt

One line comes out for each line that goes in; an empty line stays empty. Files end lines with LF or CRLF; files that
end in .gz are compressed. A line that is longer than the model takes is translated sentence by sentence."""


def add_pair(command: argparse.ArgumentParser) -> None:
    """Options of the language pair of a multilingual model."""
    for side in ("source", "target"):
        text = f"of a model with several language pairs: the {side} language"
        command.add_argument(f"--{side}", metavar="CODE", help=text)


def add_search(command: argparse.ArgumentParser, beam: int) -> None:
    """Options of the search, with their usual spellings. beam: the default."""
    text = f"hypotheses that the search keeps, 1 (greedy) to {MAX_BEAM_SIZE} (default: {beam})"
    command.add_argument("--beam", "--beam-size", type=int, metavar="N", help=text)
    text = "a hypothesis' score is its log-probability, divided by its length to this power (default: 1), -10..10"
    command.add_argument("--length-penalty", type=float, metavar="POWER", help=text)


def search_problems(arguments: argparse.Namespace, beam: int) -> Iterator[str]:
    """beam: of the search."""
    penalty = arguments.length_penalty
    if not 1 <= beam <= MAX_BEAM_SIZE:
        yield f"--beam must be at least 1 and at most {MAX_BEAM_SIZE}, not {beam}"
    if penalty is not None and not -10 <= penalty <= 10:
        yield f"--length-penalty must lie in -10..10, not {penalty}"
    if penalty is not None and beam <= 1:
        yield "--length-penalty needs a --beam of at least 2"


def add_precision(command: argparse.ArgumentParser, default: str | None) -> None:
    """default: None for fp32, on a GPU bf16."""
    text = f"auto: the fastest of the device, int8 on most CPUs (default: {default or 'fp32, on a GPU bf16'})"
    command.add_argument("--precision", choices=["auto", *get_args(Precision)], default=default, help=text)


def add_reranking(command: argparse._ActionsContainer) -> None:
    """The models that choose among the hypotheses of a beam, and their weight."""
    text = (
        "a translator of the other direction, which chooses among the hypotheses of the beam by how likely they make"
        " the source; may be repeated, for an ensemble"
    )
    command.add_argument("--rerank", type=model_folder, metavar="FOLDER", action="append", help=text)
    text = f"of its log-probability per token beside the score of the search (default: {DEFAULT_WEIGHT})"
    command.add_argument("--rerank-weight", type=float, metavar="W", help=text)


def reranking_problems(arguments: argparse.Namespace, beam: int) -> Iterator[str]:
    """beam: of the search."""
    weight = arguments.rerank_weight
    if arguments.rerank and beam < 2:
        yield "--rerank needs a --beam of at least 2, whose hypotheses it chooses from"
    if weight is not None and not arguments.rerank:
        yield "--rerank-weight is of --rerank, a translator of the other direction"
    elif weight is not None and not 0 <= weight <= MAX_RERANK_WEIGHT:
        yield f"--rerank-weight must lie in 0..{MAX_RERANK_WEIGHT}, not {weight:g}"


def reranking_of(arguments: argparse.Namespace) -> tuple[list[Path], float] | None:
    """Folders and weight of --rerank."""
    weight = DEFAULT_WEIGHT if arguments.rerank_weight is None else arguments.rerank_weight
    return (arguments.rerank, weight) if arguments.rerank else None


def add_translate(command: argparse.ArgumentParser) -> None:
    command.description, command.epilog = "Translate lines of text.", EXAMPLES.format(program=program())
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_argument("folder", type=model_folder, metavar="FOLDER", help="the checkpoint folder, or everyday")
    text = "texts to translate, one sentence a line (default, and -: standard input); with --ensemble: further folders"
    command.add_argument("files", type=Path, nargs="*", default=[], metavar="FILE", help=text)
    command.add_argument("--input", "-i", type=Path, nargs="+", action="extend", metavar="FILE", help="the same files")
    text = "the file to write, .gz compressed (default, and -: standard output)"
    command.add_argument("--out", "--output", "-o", type=Path, metavar="FILE", help=text)
    text = "go on with the unfinished --out of a command that was stopped or killed"
    command.add_argument("--resume", action="store_true", help=text)
    text = "translate with several models that share their tokenizer: the mean of their distributions"
    command.add_argument("--ensemble", action="store_true", help=text)
    add_pair(command)
    add_search(command, DEFAULT_BEAM)
    text = "of a translation, at most (default: twice the source's and 20)"
    command.add_argument("--max-new-tokens", type=int, metavar="TOKENS", help=text)
    add_reranking(command)
    text = "the N best translations of each line, as lines of NUMBER ||| TEXT ||| F0= LOG-PROBABILITY ||| SCORE, from 0"
    command.add_argument("--n-best", "--nbest", type=int, metavar="N", help=text)
    command.add_argument("--scores", action="store_true", help="SCORE, a tab, and the text on each line")
    text = "an object on each line: line, source, text, score, log_probability; n_best with --n-best"
    command.add_argument("--json", action="store_true", help=text)
    add_precision(command, "auto")
    add_device(command)


def run_translate(arguments: argparse.Namespace) -> None:
    device = device_of(arguments)
    folders, files = _folders_and_files(arguments)
    files = [] if files == [Path("-")] else files
    arguments.out = None if arguments.out == Path("-") else arguments.out
    problems = list(_problems(arguments))
    problems += reranking_problems(arguments, DEFAULT_BEAM if arguments.beam is None else arguments.beam)
    options = search_options(arguments, DEFAULT_BEAM, problems)
    precision, size = arguments.precision, None
    if arguments.out is not None:
        check_output_file(arguments.out, resume=arguments.resume)
        if arguments.resume:  # what a clock or the number of cores chose then, holds
            identity = cast(dict[str, object], read_record(arguments.out)["identity"])
            size = cast(int, identity.get("chunk size"))
            precision = identity.get("precision") if precision == "auto" else precision
    processes = torch.get_num_threads() if device.type == "cpu" else 1
    if device.type == "cpu":
        torch.set_num_threads(1)  # a process for each core is faster than threads
    languages = (arguments.source, arguments.target)
    translator = LineTranslator(folders, device, precision, languages, reranking_of(arguments))
    source = LineInput(files, sys.stdin.buffer)
    if not files and sys.stdin.isatty():
        say("Type a sentence on each line; Ctrl-D ends.")
    form: OutputFormat = "json" if arguments.json else "n-best" if arguments.n_best else "text"
    form = "scores" if arguments.scores and form == "text" else form
    try:
        translate_lines(
            translator,
            source,
            options,
            form,
            processes=processes,
            out=arguments.out,
            stdout=sys.stdout.buffer,
            resume=arguments.resume,
            size=size or chunk_lines(source.count, processes),
        )
    except KeyboardInterrupt:
        if arguments.out is not None:
            say(f"The same command with --resume goes on where {arguments.out}.partial ends.")
        raise
    except OSError as error:
        if arguments.out is None:
            if error.filename is not None or isinstance(error, BrokenPipeError):  # of an input; the reader has gone
                raise
            reason = os_error_reason(error, resumable=False)
            raise TrainingError(f"Standard output cannot be written: {reason}.") from error
        raise TrainingError(f"{arguments.out}.partial cannot be written: {os_error_reason(error)}.") from error


def _folders_and_files(arguments: argparse.Namespace) -> tuple[list[Path], list[Path]]:
    named = arguments.input or []
    if arguments.ensemble:
        texts = [path for path in arguments.files if path.is_file()]
        if texts:
            raise TrainingError(f"{texts[0]} is no checkpoint folder: with --ensemble, give texts with --input.")
        if not arguments.files:
            raise TrainingError("--ensemble needs at least two checkpoint folders.")
        return [arguments.folder, *arguments.files], named
    folders = [path for path in arguments.files if path.is_dir()]
    if folders:
        raise TrainingError(f"{folders[0]} is a folder, not a text: several models translate with --ensemble.")
    return [arguments.folder], [*arguments.files, *named]


def _problems(arguments: argparse.Namespace) -> Iterator[str]:
    if arguments.resume and arguments.out is None:
        yield "--resume needs --out, the file to go on with"
    if arguments.n_best is not None and not 1 <= arguments.n_best <= MAX_BEAM_SIZE:
        yield f"--n-best must be at least 1 and at most {MAX_BEAM_SIZE}, not {arguments.n_best}"


def search_options(arguments: argparse.Namespace, beam: int, problems: list[str]) -> DecodingOptions:
    """The options of the command line. CannotStart lists all problems, the given ones first."""
    n_best = min(max(getattr(arguments, "n_best", None) or 1, 1), MAX_BEAM_SIZE)
    penalty = arguments.length_penalty
    width = max(beam, n_best) if arguments.beam is None else arguments.beam
    problems += search_problems(arguments, width)
    if 1 <= width < n_best:
        problems.append(f"--n-best {n_best} needs a --beam of at least {n_best}, not {width}")
    if arguments.max_new_tokens is not None and arguments.max_new_tokens < 1:
        problems.append(f"--max-new-tokens must be at least 1, not {arguments.max_new_tokens}")
    raise_all(problems)
    try:
        return DecodingOptions(
            beam_size=width,
            n_best=n_best,
            length_penalty=1.0 if penalty is None else penalty,
            max_new_tokens=arguments.max_new_tokens,
            scores=bool(getattr(arguments, "scores", False) or getattr(arguments, "json", False) or width > 1),
        )
    except OptionError as error:
        raise CannotStart([str(error).removesuffix(".")]) from error
