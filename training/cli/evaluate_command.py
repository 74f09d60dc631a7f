"""`evaluate`: scores a model, or compares several models and the outputs of other systems on one test set."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import sacrebleu

from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, CheckpointConfig
from models.interface import Precision
from models.networks.transformer import Transformer
from training.cli.command_options import PAIRS, add_columns, add_device, device_of, model_folder
from training.cli.translate_command import (
    add_reranking,
    add_search,
    reranking_of,
    reranking_problems,
    search_problems,
)
from training.config.run_file import files_trained_on
from training.data.corpus_loading import parse_columns, read_pairs, read_text
from training.data.progress_bar import progress_bar
from training.data.sentence_pairs import Pairs
from training.errors import TrainingError, pluralize, raise_all
from training.evaluation.ensemble import Ensemble, load_ensemble, tokenizer_digest
from training.evaluation.model_outputs import (
    AnyLanguages,
    Languages,
    for_languages,
    load_model,
    load_translator,
)
from training.evaluation.reranking import Reranker
from training.evaluation.scores import Score, Search, score_lyricist, score_summary, translate_and_score
from training.evaluation.system_comparison import System, compare_systems, output_lines, read_outputs, write_outputs
from training.evaluation.text_metrics import (
    FEW_SENTENCES,
    SPACED,
    TextMetrics,
    looks_tokenised,
    tokenizer_for,
)

ENSEMBLE = "ensemble"  # its name among the systems
UNKNOWN = ("source", "target")  # languages of models that name none
TOKENIZERS = tuple(sacrebleu.BLEU.TOKENIZERS)
OF_BOTH_KINDS = ("help", "folders", "corpus", "device", "threads")  # arguments; the others are of translators


def add_evaluate(command: argparse.ArgumentParser) -> None:
    text = "checkpoint folders of one kind, or everyday; several are compared"
    command.add_argument("folders", type=model_folder, nargs="*", default=[], metavar="FOLDER", help=text)
    command.add_argument("--test", metavar="PAIRS", help=f"for translators: {PAIRS}")
    command.add_argument("--source", metavar="CODE", help="of translators with several language pairs: the source")
    command.add_argument("--target", metavar="CODE", help="of translators with several language pairs: the target")
    add_columns(command)
    command.add_argument("--corpus", type=Path, help="for lyricists: a text file")
    add_search(command, 1)
    text = "of the weights in decoding (default: fp32, on a GPU bf16); int8 is the fastest on most CPUs"
    command.add_argument("--precision", choices=get_args(Precision), help=text)
    add_reranking(command)
    text = "several folders also as one model, compared with the best of them alone"
    command.add_argument("--ensemble", action="store_const", const=True, help=text)
    texts = command.add_argument_group("outputs and scores of translators")
    text = "write the translations, a line for each pair; - for standard output; of several systems a folder"
    texts.add_argument("--output", "-o", metavar="FILE", help=text)
    text = "replace the files of --output that exist"
    texts.add_argument("--overwrite", action="store_const", const=True, help=text)
    text = "further references, a line for each pair; may be repeated"
    texts.add_argument("--reference", type=Path, metavar="FILE", action="append", help=text)
    text = f"sacreBLEU's tokenizer for BLEU: {', '.join(TOKENIZERS)} (default: by the language)"
    texts.add_argument("--tokenize", choices=TOKENIZERS, metavar="NAME", help=text)
    texts.add_argument("--ter", action="store_const", const=True, help="translation edit rate, too")
    add_device(command)
    options = {action.dest: action.option_strings[0] for action in command._actions if action.option_strings}
    command.set_defaults(of_translators={name: options[name] for name in options if name not in OF_BOTH_KINDS})


def run_evaluate(arguments: argparse.Namespace) -> Mapping[str, object]:
    """Returns the scores of one system, or those of all and their comparison, whose table it prints."""
    raise_all(_problems(arguments))
    configs = {folder: _read_config(folder) for folder in arguments.folders}
    kinds = {config.kind for config in configs.values()}
    if len(kinds) > 1:
        one, other = (next(f for f, c in configs.items() if c.kind == kind) for kind in ("translator", "lyrics"))
        raise TrainingError(f"{one} is a translator and {other} a lyricist: evaluate models of one kind at a time.")
    if kinds == {"lyrics"}:
        return _evaluate_lyricists(arguments)
    sentence = f"{arguments.folders[0]} is a translator: give --test SOURCE,TARGET"
    _require_only(sentence, arguments.test, {"--corpus": arguments.corpus})
    return _evaluate_translators(arguments, configs)


def _problems(arguments: argparse.Namespace) -> Iterator[str]:
    if not arguments.folders:
        yield "a FOLDER is missing: the model to score"
    for file in filter(Path.is_file, arguments.folders):
        yield f"{file} is a file, not a checkpoint folder: a test set of two files is --test SOURCE,TARGET"
    for folder in {folder for folder in arguments.folders if arguments.folders.count(folder) > 1}:
        yield f"{folder} is given twice"
    beam = 1 if arguments.beam is None else arguments.beam
    yield from search_problems(arguments, beam)
    yield from reranking_problems(arguments, beam)
    if arguments.ensemble and len(arguments.folders) < 2:
        yield "--ensemble needs at least two folders"
    if arguments.output == "-" and (len(arguments.folders) > 1 or arguments.ensemble):
        yield "--output - is for one system: name a folder for the translations of several"


def _read_config(folder: Path) -> CheckpointConfig:
    try:
        return checkpoints.read_config(folder)
    except checkpoints.CheckpointError as error:
        raise TrainingError(str(error)) from error


def _require_only(sentence: str, wanted: object, others: Mapping[str, object]) -> None:
    """Raises TrainingError unless `wanted` is set and all others are unset."""
    if given := [option for option, value in others.items() if value is not None]:
        raise TrainingError(f"{sentence} and no {' and no '.join(given)}.")
    if wanted is None:
        raise TrainingError(f"{sentence}.")


def _evaluate_lyricists(arguments: argparse.Namespace) -> Mapping[str, object]:
    others = {option: getattr(arguments, name) for name, option in arguments.of_translators.items()}
    _require_only(f"{arguments.folders[0]} is a lyricist: give --corpus FILE", arguments.corpus, others)
    device, text, scores = device_of(arguments), read_text(arguments.corpus), dict[str, Score]()
    _note_training_files(arguments.folders, str(arguments.corpus))
    names = _unique_names(arguments.folders)
    for name, folder in zip(names, arguments.folders, strict=True):
        checkpoint, network = load_model(folder, device)
        spaced = checkpoint.config.training.get("newline_as_space")
        scores[name] = score_lyricist(checkpoint, network, text.replace("\n", " ") if spaced else text)
    if len(scores) == 1:
        return scores[names[0]]
    width = max(map(len, names))
    print(f"{'system'.ljust(width)}  bits per character  perplexity  unknown characters")
    for name, score in scores.items():
        bits, perplexity, unknown = (score[key] for key in ("bits_per_character", "perplexity", "unknown_characters"))
        print(f"{name.ljust(width)}  {bits:>18.4f}  {perplexity:>10.4f}  {unknown:>18,}")
    return {"systems": [{"name": name, **score} for name, score in scores.items()]}


@dataclass(frozen=True, slots=True)
class TestSet:
    """references: the targets of the pairs, and further ones."""

    pairs: Pairs
    references: list[Sequence[str]]
    metrics: TextMetrics


def _evaluate_translators(
    arguments: argparse.Namespace, configs: Mapping[Path, CheckpointConfig]
) -> Mapping[str, object]:
    device = device_of(arguments)
    names = _unique_names(arguments.folders)
    languages = _languages(arguments, configs)
    test = _read_test(arguments, languages)
    _check_output(arguments, [*names, *([ENSEMBLE] * bool(arguments.ensemble))])
    _note_training_files(arguments.folders, arguments.test)
    penalty = 1.0 if arguments.length_penalty is None else arguments.length_penalty
    rerank = None
    if reranking := reranking_of(arguments):
        rerank = Reranker(reranking[0], device, _known(languages), reranking[1])
    search = Search(arguments.beam or 1, penalty, arguments.precision, rerank)
    ensemble = None
    if arguments.ensemble:
        ensemble = load_ensemble(arguments.folders, device, languages)
    systems = []
    for name, folder in zip(names, arguments.folders, strict=True):
        systems.append(_translated(name, *load_translator(folder, device, languages), test, search))
    alone = len(systems)
    if ensemble is not None:
        systems.append(_translated(ENSEMBLE, *ensemble, test, search))
    _write_outputs(arguments.output, systems, test.pairs)
    if len(systems) == 1:
        if len(test.pairs) < FEW_SENTENCES:
            _note(f"{score_summary(systems[0].score)}, fewer than {FEW_SENTENCES}.")
        return systems[0].score
    baseline = max(range(alone), key=lambda place: systems[place].score["bleu"]) if arguments.ensemble else 0
    comparison = compare_systems(systems, test.references, test.metrics, baseline=baseline)
    print(f"{pluralize(len(test.pairs), 'sentence')} of {test.pairs.origin}\n")
    print(*comparison.lines(), sep="\n")
    return comparison.as_json()


def _unique_names(folders: Sequence[Path]) -> list[str]:
    """The folders' names; their whole paths where two have one name."""
    names = [folder.resolve().name for folder in folders]
    return [str(folder) if names.count(name) > 1 else name for folder, name in zip(folders, names, strict=True)]


def _known(languages: Languages) -> AnyLanguages:
    """None for what `_languages` calls "source" and "target"."""
    source, target = languages
    return (None if source == UNKNOWN[0] else source, None if target == UNKNOWN[1] else target)


def _languages(arguments: argparse.Namespace, configs: Mapping[Path, CheckpointConfig]) -> Languages:
    """The direction of all models; of a model that does not name its languages that of the options, with UNKNOWN for a
    language that they do not name either. TrainingError for models of several."""
    wanted = (arguments.source, arguments.target)
    source, target = wanted[0] or UNKNOWN[0], wanted[1] or UNKNOWN[1]
    first, *_ = configs
    directions = dict[Path, Languages]()
    for folder, config in configs.items():
        config = for_languages(Checkpoint(folder, config, {}), wanted).config
        directions[folder] = (config.source_language or source, config.target_language or target)
        if directions[folder] != directions[first]:
            theirs, ours = ("→".join(directions[name]) for name in (folder, first))
            raise TrainingError(f"{folder} translates {theirs} and {first} {ours}: compare models of one direction.")
    return directions[first]


def _read_test(arguments: argparse.Namespace, languages: Languages) -> TestSet:
    pairs = read_pairs(arguments.test, languages, parse_columns(arguments.columns))
    references: list[Sequence[str]] = [pairs.targets]
    report = pairs.reported()
    for note in report.notes:
        _note(note)
    for reason, left_out in report.dropped.items():
        _note(f"{left_out.count:,} of {pluralize(report.read, 'pair')} not scored: {reason}.")
    target, tokenize = languages[1], arguments.tokenize
    if tokenize is None and (tokenize := tokenizer_for(target)) != SPACED:
        _note(f"BLEU splits {target} by sacreBLEU's tokenizer {tokenize}; its default is --tokenize {SPACED}.")
    references += [read_outputs(path, pairs) for path in arguments.reference or ()]
    if tokenize != "none" and looks_tokenised(pairs.targets):
        _note("The references look tokenised (' .'), which changes BLEU: detokenise them, or give --tokenize none.")
    metrics = TextMetrics(tokenize, bool(arguments.ter))
    metrics.build()  # raises before the decoding
    return TestSet(pairs, references, metrics)


def _note(sentence: str) -> None:
    print(f"note: {sentence}", file=sys.stderr)


def _note_training_files(folders: Sequence[Path], corpus: str) -> None:
    for folder in folders:
        for file in files_trained_on(folder, corpus):
            _note(f"{folder} was trained on {file}: its scores on it do not tell how well it does on other texts.")


def _check_output(arguments: argparse.Namespace, systems: Sequence[str]) -> None:
    """TrainingError for an --output that is of the other kind, that is read by this command, or that exists. systems:
    their names."""
    if arguments.output in (None, "-"):
        return
    path, several = Path(arguments.output), len(systems) > 1
    if several and path.is_file():
        raise TrainingError(f"--output {path} is a file, and the translations of several systems need a folder.")
    if not several and path.is_dir():
        raise TrainingError(f"--output {path} is a folder: name a file in it.")
    read = [*arguments.test.split(","), arguments.test, *(arguments.reference or ())]
    if path.exists() and any(Path(name).exists() and path.samefile(name) for name in read):
        raise TrainingError(f"--output {path} would overwrite a file that this command reads: choose another name.")
    for file in [_output_file(path, name) for name in systems] if several else [path]:
        if file.is_file() and not arguments.overwrite:  # and no pipe, terminal or /dev/null
            raise TrainingError(f"--output {file} exists: choose another name, or replace it with --overwrite.")
    folder = path if several else path.parent
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(path if path.exists() else folder, os.W_OK):  # now rather than after minutes of decoding
        raise TrainingError(f"--output {path} cannot be written: permission denied; choose another place.")


def _translated(
    name: str, checkpoint: Checkpoint, network: Transformer | Ensemble, test: TestSet, search: Search
) -> System:
    with progress_bar(name, len(test.pairs), "sentences") as bar:
        outputs, score = translate_and_score(
            checkpoint, network, test.pairs, test.references, search, test.metrics, bar.update
        )
    if isinstance(network, Ensemble):
        score["members"] = len(network.members)
    if isinstance(search.rerank, Reranker):
        score["reranked_by"] = " ".join(map(str, search.rerank.folders))
        score["rerank_weight"] = search.rerank.weight
    if count := score["longer_than_served"]:
        longer = "is longer" if count == 1 else "are longer"
        _note(
            f"{count:,} of {score['sentences']:,} sources {longer} than the {checkpoint.config.max_source_tokens:,}"
            " tokens that this model is served with. A server refuses what is translated and counted here."
        )
    return System(name, outputs, score, tokenizer=tokenizer_digest(checkpoint, "target"))


def _output_file(folder: Path, system: str) -> Path:
    return folder / f"{system.replace('/', '_')}.txt"


def _write_outputs(output: str | None, systems: Sequence[System], pairs: Pairs) -> None:
    """Writes the translations; of several systems into the folder `output`."""
    if output == "-":
        print(*output_lines(systems[0].outputs, pairs), sep="\n")
    elif output is not None:
        for system in systems:
            path = _output_file(Path(output), system.name) if len(systems) > 1 else Path(output)
            write_outputs(path, system.outputs, pairs)
