"""`evaluate`: scores a model, or compares several models and the outputs of other systems on one test set."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import sacrebleu
import torch

from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, CheckpointConfig
from models.interface import Precision
from models.networks.transformer import Transformer
from training.cli.command_options import PAIRS, add_columns, add_device, device_of
from training.cli.translate_command import (
    add_reranking,
    add_slots,
    reranking_of,
    reranking_problems,
    slots_problem,
)
from training.config.run_config import raise_all
from training.data.corpus_loading import parse_columns, read_pairs, read_text
from training.data.progress_bar import progress_bar
from training.data.sentence_pairs import Pairs
from training.errors import TrainingError, pluralize
from training.evaluation.comet_score import DEFAULT_MODEL, comet_scores, find_program
from training.evaluation.ensemble import Ensemble, load_ensemble, tokenizer_digest
from training.evaluation.hypothesis_files import hypothesis_lines, read_hypotheses, write_hypotheses
from training.evaluation.model_outputs import (
    MAX_BEAM_SIZE,
    AnyLanguages,
    Languages,
    for_languages,
    load_model,
    load_translator,
)
from training.evaluation.reranking import Reranker
from training.evaluation.sacrebleu_test_sets import PREFIX, is_test_set, read_test_set
from training.evaluation.scores import Score, Search, score_lyricist, score_summary, translate_and_score
from training.evaluation.system_comparison import System, compare_systems
from training.evaluation.text_metrics import FEW_SENTENCES, RESAMPLES, TextMetrics, looks_tokenised, text_scores

PENALTIES = "-10..10"
MAX_RESAMPLES = 100_000
ENSEMBLE = "ensemble"  # its name among the systems
UNKNOWN = ("source", "target")  # languages of models that name none
TOKENIZERS = tuple(sacrebleu.BLEU.TOKENIZERS)
UNSPACED = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}  # target language -> sacreBLEU's tokenizer for it
# options of translators only: attribute -> option, in the order in which they are refused
TRANSLATOR_OPTIONS = {
    "test": "--test",
    "source": "--source",
    "target": "--target",
    "zero_shot": "--zero-shot",
    "columns": "--columns",
    "beam": "--beam",
    "length_penalty": "--length-penalty",
    "precision": "--precision",
    "slots": "--slots",
    "rerank": "--rerank",
    "rerank_weight": "--rerank-weight",
    "hypotheses": "--hypotheses",
    "reference": "--reference",
    "output": "--output",
    "ensemble": "--ensemble",
    "weights": "--weights",
    "tokenize": "--tokenize",
    "ter": "--ter",
    "comet": "--comet",
    "paired_bs_n": "--paired-bs-n",
}


def add_evaluate(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "folders", type=Path, nargs="*", default=[], metavar="FOLDER", help="checkpoint folders of one kind"
    )
    text = f"for translators: {PAIRS}; or a test set of sacreBLEU, such as {PREFIX}wmt20 or {PREFIX}wmt20/de-en"
    command.add_argument("--test", metavar="PAIRS", help=text)
    command.add_argument("--source", metavar="CODE", help="of translators with several language pairs: the source")
    command.add_argument("--target", metavar="CODE", help="of translators with several language pairs: the target")
    text = "also a pair that a multilingual translator was not trained for, into one of its targets"
    command.add_argument("--zero-shot", action="store_true", default=None, help=text)
    add_columns(command)
    command.add_argument("--corpus", type=Path, help="for lyricists: a text file")
    command.add_argument(
        "--beam",
        "--beam-size",
        type=int,
        metavar="N",
        help=f"for translators: 1 (greedy, the default) to {MAX_BEAM_SIZE}",
    )
    text = f"for beams: a hypothesis' score is divided by its length to this power (default: 1), {PENALTIES}"
    command.add_argument("--length-penalty", type=float, metavar="POWER", help=text)
    text = "of the weights in decoding (default: fp32, on a GPU bf16); int8 is the fastest on most CPUs"
    command.add_argument("--precision", choices=get_args(Precision), help=text)
    add_slots(command)
    add_reranking(command)
    several = command.add_argument_group("several systems, the first of which is the baseline of paired tests")
    text = "outputs of another system, a line for each pair; may be repeated"
    several.add_argument("--hypotheses", metavar="NAME=FILE", action="append", help=text)
    text = "the folders also as one model, whose baseline is the best of them alone"
    several.add_argument("--ensemble", action="store_const", const=True, help=text)
    several.add_argument("--weights", metavar="W,W,…", help="of the ensemble's members (default: equal)")
    text = f"resamples of the paired bootstrap (default: {RESAMPLES:,})"
    several.add_argument("--paired-bs-n", type=int, metavar="N", help=text)
    texts = command.add_argument_group("outputs and scores of translators")
    text = "write the translations, a line for each pair; - for standard output; of several systems a folder"
    texts.add_argument("--output", "-o", metavar="FILE", help=text)
    text = "further references, a line for each pair; may be repeated"
    texts.add_argument("--reference", type=Path, metavar="FILE", action="append", help=text)
    text = f"sacreBLEU's tokenizer for BLEU: {', '.join(TOKENIZERS)} (default: 13a)"
    texts.add_argument("--tokenize", choices=TOKENIZERS, metavar="NAME", help=text)
    texts.add_argument("--ter", action="store_const", const=True, help="translation edit rate, too")
    text = f"COMET, too, by the program comet-score; a model's name or .ckpt file (default: {DEFAULT_MODEL})"
    texts.add_argument("--comet", metavar="MODEL", nargs="?", const=DEFAULT_MODEL, help=text)
    add_device(command)


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
    subject = f"{arguments.folders[0]} is a translator" if configs else "--hypotheses are translations"
    _require_only(f"{subject}: give --test SOURCE,TARGET", arguments.test, {"--corpus": arguments.corpus})
    return _evaluate_translators(arguments, configs)


def _problems(arguments: argparse.Namespace) -> Iterator[str]:
    beam, penalty, resamples = arguments.beam, arguments.length_penalty, arguments.paired_bs_n
    systems = len(arguments.folders) + len(arguments.hypotheses or ())
    if not systems and arguments.comet is not None and Path(arguments.comet).is_dir():
        yield f"--comet took the folder {arguments.comet} for its model: put --comet last, or write --comet=NAME"
    elif not systems:
        yield "a FOLDER is missing: the model to score"
    for file in filter(Path.is_file, arguments.folders):
        yield f"{file} is a file, not a checkpoint folder: a test set of two files is --test SOURCE,TARGET"
    for folder in {folder for folder in arguments.folders if arguments.folders.count(folder) > 1}:
        yield f"{folder} is given twice"
    if beam is not None and not 1 <= beam <= MAX_BEAM_SIZE:
        yield f"--beam must be at least 1 and at most {MAX_BEAM_SIZE}, not {beam}"
    yield slots_problem(arguments)
    yield from reranking_problems(arguments, beam or 1)
    if penalty is not None and not -10 <= penalty <= 10:
        yield f"--length-penalty must lie in {PENALTIES}, not {penalty}"
    if penalty is not None and (beam or 1) <= 1:
        yield "--length-penalty needs a --beam of at least 2"
    if arguments.ensemble and len(arguments.folders) < 2:
        yield "--ensemble needs at least two folders"
    if arguments.rerank and not arguments.folders:
        yield "--rerank chooses among the hypotheses of a model: give its FOLDER"
    if arguments.weights is not None and not arguments.ensemble:
        yield "--weights are of the members of an --ensemble"
    if resamples is not None and not 1 <= resamples <= MAX_RESAMPLES:
        yield f"--paired-bs-n must be 1 to {MAX_RESAMPLES:,}, not {resamples}"
    if resamples is not None and systems < 2:
        yield "--paired-bs-n is for two or more systems"
    if arguments.output == "-" and (systems > 1 or arguments.ensemble):
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
    others = {option: getattr(arguments, name) for name, option in TRANSLATOR_OPTIONS.items()}
    _require_only(f"{arguments.folders[0]} is a lyricist: give --corpus FILE", arguments.corpus, others)
    device, text, scores = device_of(arguments), read_text(arguments.corpus), dict[str, Score]()
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
    device, weights = device_of(arguments), _weights(arguments.weights)
    others = _named_files(arguments.hypotheses or ())
    names = _unique_names(arguments.folders)
    taken = [*names, *([ENSEMBLE] * bool(arguments.ensemble)), *(name for name, _ in others)]
    if repeated := [name for name in taken if taken.count(name) > 1]:
        raise TrainingError(f"Two systems are called {repeated[0]!r}: give --hypotheses other names, NAME=FILE.")
    languages, zero_shot = _languages(arguments, configs), bool(arguments.zero_shot)
    if arguments.comet is not None:
        find_program()  # before minutes of decoding
    test = _read_test(arguments, languages)
    _check_output(arguments, others, several=len(taken) > 1)
    hypotheses = {name: read_hypotheses(file, test.pairs) for name, file in others}
    for name, outputs in hypotheses.items():
        _note_tokenised(f"hypotheses {name}", outputs, arguments.tokenize)
    penalty = 1.0 if arguments.length_penalty is None else arguments.length_penalty
    rerank = None
    if reranking := reranking_of(arguments):
        rerank = Reranker(reranking[0], device, _known(languages), reranking[1], zero_shot=zero_shot)
    search = Search(arguments.beam or 1, penalty, arguments.precision, arguments.slots, rerank)
    ensemble = None
    if arguments.ensemble:
        ensemble = load_ensemble(arguments.folders, device, weights, languages, zero_shot=zero_shot)
    systems = []
    for name, folder in zip(names, arguments.folders, strict=True):
        systems.append(
            _translated(name, *load_translator(folder, device, languages, zero_shot=zero_shot), test, search)
        )
    alone = len(systems)
    if ensemble is not None:
        systems.append(_translated(ENSEMBLE, *ensemble, test, search))
    for name, outputs in hypotheses.items():
        score: Score = {**text_scores(outputs, test.references, test.metrics), "sentences": len(test.pairs)}
        systems.append(System(name, outputs, score))
    _write_outputs(arguments.output, [s for s in systems if s.name not in hypotheses], test.pairs, len(systems))
    if arguments.comet is not None:
        systems = _with_comet(systems, test, arguments.comet, device)
    if len(systems) == 1:
        if len(test.pairs) < FEW_SENTENCES:
            _note(f"{score_summary(systems[0].score)}, fewer than {FEW_SENTENCES}.")
        return systems[0].score
    baseline = max(range(alone), key=lambda place: systems[place].score["bleu"]) if arguments.ensemble else 0
    resamples = arguments.paired_bs_n or RESAMPLES
    comparison = compare_systems(systems, test.references, test.metrics, baseline=baseline, resamples=resamples)
    print(f"{pluralize(len(test.pairs), 'sentence')} of {test.pairs.origin}\n")
    print(*comparison.lines(), sep="\n")
    return comparison.as_json()


def _weights(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise TrainingError(f"--weights takes a number for each folder, such as 1,1,2, not {text!r}.") from None


def _unique_names(folders: Sequence[Path]) -> list[str]:
    """The folders' names; their whole paths where two have one name."""
    names = [folder.resolve().name for folder in folders]
    return [str(folder) if names.count(name) > 1 else name for folder, name in zip(folders, names, strict=True)]


def _named_files(arguments: Sequence[str]) -> list[tuple[str, Path]]:
    """(name, file) of each NAME=FILE; of a file alone its name without the suffix."""
    named = []
    for argument in arguments:
        name, sign, file = argument.partition("=")
        if not sign or Path(argument).is_file():
            name, file = Path(argument).name.partition(".")[0], argument
        if not name or not file:
            raise TrainingError(f"--hypotheses takes NAME=FILE, such as deepl=deepl.txt, not {argument!r}.")
        named.append((name, Path(file)))
    return named


def _known(languages: Languages | None) -> AnyLanguages:
    """None for what `_languages` calls "source" and "target"."""
    source, target = languages or UNKNOWN
    return (None if source == UNKNOWN[0] else source, None if target == UNKNOWN[1] else target)


def _languages(arguments: argparse.Namespace, configs: Mapping[Path, CheckpointConfig]) -> Languages | None:
    """The direction of all models; of a model that does not name its languages, and without models, that of the
    options, with UNKNOWN for a language that they do not name either. TrainingError for models of several."""
    wanted = (arguments.source, arguments.target)
    source, target = wanted[0] or UNKNOWN[0], wanted[1] or UNKNOWN[1]
    if not configs:
        return (source, target) if any(wanted) else None
    first, *_ = configs
    directions = dict[Path, Languages]()
    for folder, config in configs.items():
        config = for_languages(Checkpoint(folder, config, {}), wanted, zero_shot=bool(arguments.zero_shot)).config
        directions[folder] = (config.source_language or source, config.target_language or target)
        if directions[folder] != directions[first]:
            theirs, ours = ("→".join(directions[name]) for name in (folder, first))
            raise TrainingError(f"{folder} translates {theirs} and {first} {ours}: compare models of one direction.")
    return directions[first]


def _read_test(arguments: argparse.Namespace, languages: Languages | None) -> TestSet:
    if arguments.test.startswith(PREFIX):
        pairs, references = read_test_set(arguments.test, languages)
    elif is_test_set(arguments.test):
        raise TrainingError(f"{arguments.test} is no file; sacreBLEU's test set is --test {PREFIX}{arguments.test}.")
    else:
        pairs = read_pairs(arguments.test, languages, parse_columns(arguments.columns))
        references = [pairs.targets]
    report = pairs.reported()
    for note in report.notes:
        _note(note)
    if report.left_out:
        _note(f"{report.left_out:,} of {pluralize(report.read, 'pair')} have an empty side and are not scored.")
    target, tokenize = languages[1] if languages else "", arguments.tokenize
    if tokenize is None and (better := UNSPACED.get(target.partition("-")[0].lower())):
        _note(f"BLEU's default tokenizer 13a splits {target} at spaces only; --tokenize {better} is made for it.")
    references += [read_hypotheses(path, pairs) for path in arguments.reference or ()]
    _note_tokenised("references", references[0], tokenize)
    metrics = TextMetrics(tokenize or "13a", bool(arguments.ter))
    metrics.build()  # raises before the decoding
    return TestSet(pairs, references, metrics)


def _note_tokenised(what: str, texts: Sequence[str], tokenize: str | None) -> None:
    if tokenize != "none" and looks_tokenised(texts):
        _note(f"The {what} look tokenised (' .'), which changes BLEU: detokenise them, or give --tokenize none.")


def _note(sentence: str) -> None:
    print(f"note: {sentence}", file=sys.stderr)


def _check_output(arguments: argparse.Namespace, others: Sequence[tuple[str, Path]], *, several: bool) -> None:
    """TrainingError for an --output that is of the other kind, or that is read by this command."""
    if arguments.output in (None, "-"):
        return
    path = Path(arguments.output)
    if several and path.is_file():
        raise TrainingError(f"--output {path} is a file, and the translations of several systems need a folder.")
    if not several and path.is_dir():
        raise TrainingError(f"--output {path} is a folder: name a file in it.")
    if not arguments.folders:
        raise TrainingError("--output writes the translations of models, and there is none: give a FOLDER.")
    read = [*arguments.test.split(","), arguments.test, *(arguments.reference or ()), *(file for _, file in others)]
    if path.exists() and any(Path(name).exists() and path.samefile(name) for name in read):
        raise TrainingError(f"--output {path} would overwrite a file that this command reads: choose another name.")
    folder = path if several else path.parent
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):  # now rather than behind minutes of decoding
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


def _write_outputs(output: str | None, systems: Sequence[System], pairs: Pairs, count: int) -> None:
    """Writes the translations of the models. count: of all systems; with several, `output` is a folder."""
    if output == "-":
        print(*hypothesis_lines(systems[0].outputs, pairs), sep="\n")
    elif output is not None:
        for system in systems:
            name = system.name.replace("/", "_")
            write_hypotheses(Path(output) / f"{name}.txt" if count > 1 else Path(output), system.outputs, pairs)


def _with_comet(systems: Sequence[System], test: TestSet, model: str, device: torch.device) -> list[System]:
    _note(f"comet-score runs {model} on {pluralize(len(systems), 'system')}; on a CPU this takes minutes.")
    outputs = [system.outputs for system in systems]
    scores = comet_scores(test.pairs.sources, outputs, test.references[0], model, device)
    return [
        replace(system, comet=row, score={**system.score, "comet": round(sum(row) / len(row), 4), "comet_model": model})
        for system, row in zip(systems, scores, strict=True)
    ]
