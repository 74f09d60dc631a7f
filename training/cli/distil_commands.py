"""`training distil` and `training backtranslate`: pairs that a teacher translates, for a student to learn from."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import cast

import torch

from models.decoding.options import DecodingOptions
from training.cli.command_options import PAIRS, add_columns, add_device, device_of
from training.cli.translate_command import add_pair, add_precision, slots_problem
from training.config.run_config import raise_all
from training.data.corpus_files import stem_suffix
from training.data.corpus_loading import PAIR_FORMATS, is_monolingual, parse_columns, read_corpora
from training.evaluation.model_outputs import MAX_BEAM_SIZE
from training.translation.back_translation import BackwardPair, WordNoise
from training.translation.distillation import (
    ForwardPair,
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
TEXT = "monolingual text, one sentence a line, each file also .gz"


def _add_common(command: argparse.ArgumentParser, beam: int, precision: str | None) -> None:
    command.add_argument("--out", "-o", type=Path, metavar="FILE", help="the pairs to write, .jsonl or .jsonl.gz")
    command.add_argument("--resume", action="store_true", help=RESUME)
    command.add_argument("--ensemble", action="store_true", help="several folders are one teacher together")
    text = f"hypotheses of the teacher's search, 1 to {MAX_BEAM_SIZE} (default: {beam})"
    command.add_argument("--beam", "--beam-size", type=int, metavar="N", help=text)
    add_pair(command)
    add_precision(command, precision)
    text = "on a CPU (default: one for each core; one for pairs)"
    command.add_argument("--processes", type=int, metavar="N", help=text)
    add_device(command)


def add_distil(command: argparse.ArgumentParser) -> None:
    command.add_argument("folder", type=Path, help="the checkpoint folder of the teacher")
    command.add_argument("folders", type=Path, nargs="*", default=[], help="with --ensemble: more of them")
    text = f"{PAIRS}; a file of one column is a text"
    command.add_argument("--train", metavar="PAIRS", nargs="+", action="extend", help=text)
    command.add_argument("--text", metavar="FILE", nargs="+", action="extend", help=TEXT)
    add_columns(command)
    _add_common(command, 5, None)


def run_distil(arguments: argparse.Namespace) -> Mapping[str, object]:
    """Translates pairs or a text with a teacher; returns counts and, of pairs, their BLEU against the references."""
    device = device_of(arguments)
    beam, given = _beam(arguments, 5), arguments.train or []
    one_column = [name for name in given if is_monolingual(name)]
    texts, corpora = [*one_column, *(arguments.text or [])], [name for name in given if name not in one_column]
    problems = list(_problems(arguments, device, beam))
    problems += _text_problems(arguments.text or [], "give it with --train")
    if not texts and not corpora:
        problems.append("--train (pairs) or --text (a text in the source language) is missing")
    if texts and corpora:
        problems.append(f"{texts[0]} is a text and {corpora[0]} holds pairs: translate them one after the other")
    raise_all(problems)
    check_output_file(arguments.out, resume=arguments.resume)
    if texts:
        options = DecodingOptions(beam_size=beam)
        translator, processes = _translator(arguments, device, _cores(arguments, device))
        pair = ForwardPair(languages_of(translator))
        return _translate_text(arguments, TextTeacher(translator, options, pair), texts, processes)
    translator, processes = _translator(arguments, device, arguments.processes or 1)
    pairs = read_corpora(corpora, languages_of(translator), parse_columns(arguments.columns))
    for note in pairs.reported().notes:
        print(f"note: {note}", file=sys.stderr)
    return distil_pairs(Teacher(translator, beam), pairs, arguments.out, processes=processes, resume=arguments.resume)


def add_backtranslate(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Make pairs with synthetic sources from text in the language that a student is to write. The teacher translates"
        " in the opposite direction: for a student de→en, give a teacher en→de and English text."
    )
    command.add_argument("folder", type=Path, metavar="FOLDER", help="the checkpoint folder of the teacher")
    text = f"{TEXT}; with --ensemble: further folders"
    command.add_argument("files", type=Path, nargs="*", default=[], metavar="FILE", help=text)
    command.add_argument("--text", type=Path, metavar="FILE", nargs="+", action="extend", help="the same files")
    _add_common(command, 5, "auto")
    text = "draw translations from the model instead of searching for the best one"
    command.add_argument("--sampling", action="store_true", help=text)
    command.add_argument("--temperature", type=float, metavar="T", help="of --sampling (default: 1)")
    command.add_argument("--top-k", type=int, metavar="K", help="of --sampling: among the K likeliest tokens")
    command.add_argument("--top-p", type=float, metavar="P", help="of --sampling: among the likeliest of this mass")
    default = WordNoise()
    text = (
        "noise on the synthetic side, as in Edunov et al. 2018: words are dropped, blanked and moved (default:"
        f" drop={default.drop} blank={default.blank} swap={default.swap})"
    )
    command.add_argument("--noise", nargs="*", metavar="RULE=VALUE", help=text)
    text = f"stands for a blanked word (default: {default.blank_word})"
    command.add_argument("--blank-word", metavar="TEXT", default=default.blank_word, help=text)
    command.add_argument("--tag", metavar="TEXT", default="", help="in front of each synthetic source, such as '<BT>'")
    command.add_argument("--seed", type=int, default=1, help="of sampling and noise (default: 1)")


def run_backtranslate(arguments: argparse.Namespace) -> Mapping[str, object]:
    """Translates a text backwards; returns counts of pairs and of lines that were left out."""
    device = device_of(arguments)
    beam = 1 if arguments.sampling else _beam(arguments, 5)
    files = [*(arguments.files if not arguments.ensemble else []), *(arguments.text or [])]
    problems = [*_problems(arguments, device, beam), *_sampling_problems(arguments)]
    noise, noise_problems = word_noise(arguments.noise, arguments.blank_word)
    problems += noise_problems
    problems += _text_problems(files, "write the side to translate into a file of its own, such as text.txt")
    if not files:
        problems.append("a text to translate is missing")
    for name, word in (("--tag", arguments.tag), ("--blank-word", arguments.blank_word)):
        if len(word.split()) > 1 or (name == "--blank-word" and not word.strip()):
            problems.append(f"{name} must be one word, such as <BT>, not {word!r}")
    raise_all(problems)
    check_output_file(arguments.out, resume=arguments.resume)
    options = DecodingOptions(beam_size=beam, seed=arguments.seed)
    if arguments.sampling:
        temperature = 1.0 if arguments.temperature is None else arguments.temperature
        options = DecodingOptions(
            temperature=temperature,
            top_k=arguments.top_k or 0,
            top_p=1.0 if arguments.top_p is None else arguments.top_p,
            seed=arguments.seed,
            scores=False,
        )
    translator, processes = _translator(arguments, device, _cores(arguments, device))
    config = translator.checkpoint.config
    languages = (config.target_language or "source", config.source_language or "target")
    pair = BackwardPair(languages, noise, arguments.tag, arguments.seed)
    result = _translate_text(arguments, TextTeacher(translator, options, pair), files, processes)
    symbols = [arguments.tag] * bool(arguments.tag) + [arguments.blank_word] * bool(noise and noise.blank)
    if symbols:
        said = f"--set 'tokenizer.symbols={','.join(symbols)}' makes each of {', '.join(symbols)} one piece"
        print(f"note: in the training of the student, {said}", file=sys.stderr)
    return result


def word_noise(settings: Sequence[str] | None, blank_word: str) -> tuple[WordNoise | None, list[str]]:
    """The noise of `--noise` and the problems of its settings; None without the option."""
    if settings is None:
        return None, []
    values: dict[str, float] = {}
    problems = []
    names = [field.name for field in fields(WordNoise) if field.name != "blank_word"]
    for setting in settings:
        name, _, value = setting.partition("=")
        try:
            if name not in names:
                raise ValueError
            values[name] = int(value) if name == "swap" else float(value)
        except ValueError:
            problems.append(f"--noise takes {', '.join(f'{each}=NUMBER' for each in names)}, not {setting!r}")
    noise = WordNoise(**values, blank_word=blank_word)  # type: ignore[arg-type]
    return noise, [*problems, *noise.problems()]


def _text_problems(files: Sequence[str | Path], instead: str) -> Iterator[str]:
    """Problems of files that the user calls texts and that hold pairs. instead: what to do with such a file."""
    for path in map(Path, files):
        suffix = stem_suffix(path)
        if suffix in PAIR_FORMATS or (suffix == ".tsv" and path.is_file() and not is_monolingual(str(path))):
            yield f"{path} is read as pairs, not as a text with a sentence on each line: {instead}"


def _translate_text(
    arguments: argparse.Namespace, teacher: TextTeacher, files: Sequence[str | Path], processes: int
) -> Mapping[str, object]:
    size = cast(int, _recorded(arguments).get("chunk size")) if arguments.resume else None
    lines = LineInput([Path(file) for file in files], sys.stdin.buffer)
    return translate_text(teacher, lines, arguments.out, processes=processes, resume=arguments.resume, size=size)


def _translator(arguments: argparse.Namespace, device: torch.device, processes: int) -> tuple[LineTranslator, int]:
    if processes > 1 and torch.get_num_threads() < 2 * processes:
        torch.set_num_threads(1)  # of each process
    more = getattr(arguments, "folders", None)
    more = (arguments.files if more is None else more) if arguments.ensemble else []
    precision = arguments.precision
    if precision in ("auto", None) and arguments.resume:
        precision = _recorded(arguments).get("precision")
    pair = arguments.source, arguments.target
    return LineTranslator([arguments.folder, *more], device, precision, pair, arguments.slots), processes


def _recorded(arguments: argparse.Namespace) -> Mapping[str, object]:
    return cast(Mapping[str, object], read_record(arguments.out)["identity"])


def _cores(arguments: argparse.Namespace, device: torch.device) -> int:
    return arguments.processes or (torch.get_num_threads() if device.type == "cpu" else 1)


def _beam(arguments: argparse.Namespace, default: int) -> int:
    return default if arguments.beam is None else arguments.beam


def _problems(arguments: argparse.Namespace, device: torch.device, beam: int) -> Iterator[str]:
    yield slots_problem(arguments)
    yield "" if 1 <= beam <= MAX_BEAM_SIZE else f"--beam must be 1 to {MAX_BEAM_SIZE}, not {beam}"
    processes = 1 if arguments.processes is None else arguments.processes
    yield "" if processes >= 1 else f"--processes must be at least 1, not {processes}"
    if processes > 1 and device.type != "cpu":
        yield "--processes is for CPUs: one process keeps a GPU busy"
    more = getattr(arguments, "folders", [])
    yield (
        f"{more[0]} is one folder too many: several are a teacher with --ensemble"
        if more and not arguments.ensemble
        else ""
    )
    if arguments.out is None:
        yield "--out is missing: the file to write"
    elif stem_suffix(arguments.out) != ".jsonl":
        yield f"--out must end in .jsonl or .jsonl.gz, not be {arguments.out}"


def _sampling_problems(arguments: argparse.Namespace) -> Iterator[str]:
    for name, value in (
        ("--temperature", arguments.temperature),
        ("--top-k", arguments.top_k),
        ("--top-p", arguments.top_p),
    ):
        if value is not None and not arguments.sampling:
            yield f"{name} needs --sampling"
    if arguments.sampling and arguments.beam not in (None, 1):
        yield "--sampling draws one translation, without a --beam"
    temperature, top_p = arguments.temperature, arguments.top_p
    if temperature is not None and not 0 < temperature < 1e6:
        yield f"--temperature must be more than 0, not {temperature:g}"
    if arguments.top_k is not None and arguments.top_k < 1:
        yield f"--top-k must be at least 1, not {arguments.top_k}"
    if top_p is not None and not 0 < top_p <= 1:
        yield f"--top-p must lie in (0, 1], not {top_p:g}"
    if not 0 <= arguments.seed < 1 << 32:
        yield f"--seed must lie in 0..2^32-1, not {arguments.seed}"
