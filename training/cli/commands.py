"""The commands of `python -m training`: the parser of each command, followed by its function."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from models.language_names import code_problem
from models.networks.cells import CELLS
from training.cli.command_options import (
    PAIRS,
    add_cleaning,
    add_columns,
    add_configuration,
    add_device,
    add_override,
    add_run,
    add_start,
    build_request,
    cleaning_of,
    device_of,
    read_start,
    start_run,
)
from training.cli.conversion_commands import add_export, add_import_marian, run_export, run_import_marian
from training.cli.distil_commands import add_backtranslate, add_distil, run_backtranslate, run_distil
from training.cli.evaluate_command import add_evaluate, run_evaluate
from training.cli.multilingual_options import add_multilingual, multilingual_request, problems_beside_multilingual
from training.cli.translate_command import add_translate, run_translate
from training.config.overrides import Override
from training.config.recipes import LYRICISTS, MEDIUM_TEXT, TRANSLATORS, Recipe, lyricist_for
from training.config.run_config import raise_all
from training.config.run_file import explained_config
from training.data.cleaning import clean
from training.data.corpus_files import stem_suffix
from training.data.corpus_loading import (
    HUGGINGFACE_PREFIX,
    JSON_LINES,
    TEXT_FORMATS,
    parse_columns,
    read_corpora,
    read_pairs,
    read_run_corpora,
    read_text,
    require_corpora,
)
from training.data.corpus_statistics import Statistics, page_of_pairs, page_of_text, pair_statistics, text_statistics
from training.data.mixing import read_mix
from training.data.multilingual_corpora import read_multilingual_corpora
from training.data.public_data import is_name as is_public_name
from training.errors import TrainingError, pluralize
from training.evaluation.scores import Scores
from training.lyricist_run import train_lyricist
from training.program import program
from training.translator_run import train_translator

NOT_VALIDATED = (
    "Too few pairs to hold some out: nothing is validated, and the last weights are kept; --valid FILE takes pairs of"
    " your own."
)
AS_PAIRS = "To read pairs of texts, give --source and --target."
REQUIRED = {"source_language": "--source", "target_language": "--target", "train": "--train"}


def add_translator(command: argparse.ArgumentParser) -> None:
    add_override(command, "--source", "source_language", "CODE", "source language code, such as de")
    add_override(command, "--target", "target_language", "CODE", "target language code, such as en")
    command.add_argument("--train", metavar="PAIRS", nargs="+", action="extend", help=PAIRS)
    text = "held-out pairs (default: a share of --train)"
    command.add_argument("--valid", metavar="PAIRS", nargs="+", action="extend", help=text)
    text = "scored once, at the end, for the model card"
    command.add_argument("--test", metavar="PAIRS", nargs="+", action="extend", help=text)
    add_multilingual(command)
    add_columns(command)
    add_cleaning(command)
    add_start(command)
    text = "general pairs that join --train, so that a tuned model forgets less: some others in each epoch"
    command.add_argument("--mix", metavar="PAIRS", nargs="+", action="extend", help=text)
    add_override(command, "--mix-share", "tuning.mix_share", "SHARE", "of --mix in each epoch (default: 0.8)")
    command.add_argument(
        "--other-languages",
        action="append_const",
        dest="overrides",
        const=Override("tuning.other_languages", True, "--other-languages"),
        help="tune a model of other languages into --source and --target",
    )
    add_configuration(command, TRANSLATORS, "tiny, or finetune with --from")
    text = "of a new network: an existing one, of a checkpoint folder, a SentencePiece .model file, or SOURCE,TARGET"
    command.add_argument("--tokenizer", metavar="FOLDER|FILE", help=text)
    text = "pieces of the SentencePiece vocabulary, at most"
    add_override(command, "--vocab-size", "tokenizer.vocab_size", "PIECES", text)
    add_override(command, "--label-smoothing", "label_smoothing", "VALUE", "probability spread over all tokens alike")
    add_override(command, "--dropout", "network.residual_dropout", "RATE", "of the output of every sublayer")
    add_override(command, "--tokens-per-batch", "tokens_per_batch", "TOKENS", "of the longer side, padding included")
    add_run(command)


def run_translator(arguments: argparse.Namespace) -> Scores:
    data = {name: getattr(arguments, name) for name in ("train", "mix", "valid", "test", "columns")}
    for role in ("valid", "test"):
        if data[role] and len(data[role]) == 1 and not arguments.multilingual:
            (data[role],) = data[role]
    data |= {"from": arguments.start_from, "tokenizer": arguments.tokenizer}
    raise_all(problems_beside_multilingual(arguments))
    start = read_start(arguments, "translator")
    required = {"train": "--train"} if arguments.multilingual else REQUIRED
    request = build_request(arguments, TRANSLATORS, "finetune" if start else "tiny", data, required, start)
    request = multilingual_request(arguments, request)
    config, workers = request.config, arguments.workers
    run = start_run(arguments, request)
    require_corpora(request.data)
    languages = (config.source_language, config.target_language)
    if config.multilingual.pairs:
        train, valid, test = read_multilingual_corpora(request.data, config)
    else:
        train, valid, test = read_run_corpora(request.data, languages, config.cleaning, config.loop.seed)
    workers.note("\n".join(train.reported().lines()))
    mix = None
    if request.data.get("mix"):
        mix = read_mix(request.data, languages, config.cleaning, config.loop.seed, (train, valid, test))
        workers.note("\n".join(mix[0].reported().lines()))
    if valid is None:
        stated = any(text.partition("=")[0].strip() == "loop.choose_by" for text in arguments.set)
        if stated and config.loop.choose_by == "bleu":
            raise_all(["loop.choose_by = bleu needs held-out pairs: give --valid"])
        workers.note(NOT_VALIDATED)
    return train_translator(config, train, valid, run, start=start, tokenizers=request.tokenizers, mix=mix, test=test)


def add_lyrics(command: argparse.ArgumentParser) -> None:
    command.add_argument("--corpus", metavar="CORPUS", help="a text file, a folder of .txt files, .jsonl, each .gz too")
    add_override(command, "--cell", "network.cell", "CELL", f"{', '.join(CELLS)} (default: gru)")
    add_start(command)
    text = f"small, or medium from {MEDIUM_TEXT:,} characters on, or finetune with --from"
    add_configuration(command, LYRICISTS, text)
    add_override(command, "--batch-size", "batch_size", "WINDOWS", "windows of the text in a batch")
    add_override(command, "--dropout", "network.dropout", "RATE", "between layers, and before the output")
    add_override(command, "--bptt", "bptt", "CHARACTERS", "of a window, through which the gradient flows back")
    add_run(command)


def run_lyrics(arguments: argparse.Namespace) -> Scores:
    data, required = {"corpus": arguments.corpus, "from": arguments.start_from}, {"corpus": "--corpus"}
    start = read_start(arguments, "lyrics")
    request = build_request(arguments, LYRICISTS, "finetune" if start else lyricist_for(0), data, required, start)
    run = start_run(arguments, request)
    corpus = str(request.data["corpus"])
    text = read_text(Path(corpus))
    # without a named recipe the length of the text chooses it, so the configuration is built again
    recipe = "finetune" if start else lyricist_for(len(text))
    config = build_request(arguments, LYRICISTS, recipe, data, required, start).config
    arguments.workers.note(f"Recipe {config.recipe}, a text of {pluralize(len(text), 'character')}.")
    return train_lyricist(config, text, run, origin=corpus, start=start)


def add_demo(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", type=Path, default=Path("checkpoints"))
    command.add_argument("--only", choices=["demo-de-en", "demo-en-es", "lyrics-zh"], help="just this one")
    # of the processes that `train_demo` starts: it says what an interrupt means, once for all of them
    command.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    add_device(command)


def run_demo(arguments: argparse.Namespace) -> Mapping[str, Scores]:
    from training.demo.demo_models import train_demo  # importing it builds the phrasebook, which takes a moment

    return train_demo(arguments.out, device_of(arguments), arguments.only, is_child=arguments.child)


def add_recipes(command: argparse.ArgumentParser) -> None:
    command.add_argument("--show", metavar="NAME", help="such as tiny, or lyrics/small")


def run_recipes(arguments: argparse.Namespace) -> None:
    recipes: dict[str, Recipe[Any]] = {f"translator/{name}": recipe for name, recipe in TRANSLATORS.items()}
    recipes |= {f"lyrics/{name}": recipe for name, recipe in LYRICISTS.items()}
    if wanted := arguments.show:
        matches = [name for name in recipes if wanted in (name, name.partition("/")[2])]
        if not matches:
            raise TrainingError(f"There is no recipe {wanted!r}; there are {', '.join(recipes)}.")
        if len(matches) > 1:
            raise TrainingError(f"There are two recipes of that name: say {' or '.join(matches)}.")
        print(explained_config(recipes[matches[0]].config), end="")
        return
    for name, recipe in recipes.items():
        print(f"{name:<24} {recipe.summary}")
    print(f"\nAll options of one, explained: {program()} recipes --show NAME")


def add_inspect_corpus(command: argparse.ArgumentParser) -> None:
    command.add_argument("corpus", nargs="+", help=f"pairs: {PAIRS}; or a text or a folder of texts")
    command.add_argument("--source", help="source language code; with --target the corpus is read as pairs")
    command.add_argument("--target", help="target language code")
    command.add_argument("--valid", metavar="PAIRS", help="count what these have in common with the corpus")
    command.add_argument("--test", metavar="PAIRS", help="count what these have in common with the corpus")
    add_columns(command)
    add_cleaning(command)
    command.add_argument("--subwords", type=int, metavar="SIZE", help="also fit a vocabulary and count its subwords")
    command.add_argument("--json", action="store_true", help="one JSON object instead of a page")


def run_inspect_corpus(arguments: argparse.Namespace) -> Statistics | None:
    """Returns statistics for --json; otherwise prints the page. TrainingError for an unreadable corpus."""
    if (arguments.source is None) != (arguments.target is None):
        raise TrainingError("Give --source and --target together, or neither.")
    for option, code in (("--source", arguments.source), ("--target", arguments.target)):
        if code is not None and (problem := code_problem(code)):
            raise TrainingError(f"{option} {problem}" + "." * (not problem.endswith("?")))
    if arguments.subwords is not None and arguments.subwords < 1:
        raise TrainingError(f"--subwords must be at least 1, not {arguments.subwords}.")
    as_text = arguments.source is None and all(map(is_text, arguments.corpus))
    return _inspect_text(arguments) if as_text else _inspect_pairs(arguments)


def is_text(corpus: str) -> bool:
    """Whether a corpus without languages is a lyricist's text: a folder, a data set, JSON lines or a file of
    `TEXT_FORMATS`."""
    path, on_hub = Path(corpus), corpus.startswith(HUGGINGFACE_PREFIX)
    if not path.exists() and not on_hub:
        return "," not in corpus and not is_public_name(corpus)
    return path.is_dir() or on_hub or stem_suffix(path) in (*JSON_LINES, *TEXT_FORMATS)


def _inspect_text(arguments: argparse.Namespace) -> Statistics | None:
    try:
        text = "".join(read_text(corpus) for corpus in arguments.corpus)
    except TrainingError as error:
        missing = any(
            not corpus.startswith(HUGGINGFACE_PREFIX) and not Path(corpus).exists() for corpus in arguments.corpus
        )
        if missing:  # a wrong path, which says nothing about what the file would hold
            raise
        raise TrainingError(f"{error} {AS_PAIRS}") from error
    origin = " + ".join(arguments.corpus)
    if not text.strip():
        raise TrainingError(f"{origin} has no text.")
    statistics = text_statistics(text, origin)
    if arguments.json:
        return statistics
    print(*page_of_text(statistics), sep="\n")
    if all("\t" in line for line in text.splitlines() if line.strip()):
        print(f"\nEvery line holds a tab. {AS_PAIRS}")
    return None


def _inspect_pairs(arguments: argparse.Namespace) -> Statistics | None:
    languages = (arguments.source, arguments.target) if arguments.source else None
    columns, cleaning = parse_columns(arguments.columns), cleaning_of(arguments.clean)
    valid, test = (
        read_pairs(argument, languages, columns) if argument else None for argument in (arguments.valid, arguments.test)
    )
    pairs = read_corpora(arguments.corpus, languages, columns, skip_malformed=cleaning.malformed == "skip")
    pairs = clean(pairs, replace(cleaning, least_pairs=1), validation=valid, test=test)  # training needs more of them
    statistics = pair_statistics(pairs, arguments.subwords)
    if arguments.json:
        return statistics
    sides = dict(zip(("source", "target"), languages or ("source", "target"), strict=True))
    print(*page_of_pairs(statistics, pairs.reported(), sides), sep="\n")
    return None


AddOptions = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], Mapping[str, object] | None]
COMMANDS: dict[str, tuple[str, AddOptions, Run]] = {
    "translator": ("train a translator from pairs of sentences", add_translator, run_translator),
    "lyrics": ("train a lyricist from a text", add_lyrics, run_lyrics),
    "demo": ("train the demo models on the corpora that come with this project", add_demo, run_demo),
    "evaluate": ("score a model, or compare several; the last line is JSON", add_evaluate, run_evaluate),
    "translate": ("translate files, or standard input, line by line", add_translate, run_translate),
    "distil": ("have a translator translate pairs or text for another one to learn from", add_distil, run_distil),
    "backtranslate": (
        "make pairs with synthetic sources from text in the target language",
        add_backtranslate,
        run_backtranslate,
    ),
    "recipes": ("list the recipes; --show prints all of one, as TOML for --config", add_recipes, run_recipes),
    "inspect-corpus": ("say what is in a corpus, and train nothing", add_inspect_corpus, run_inspect_corpus),
    "import-marian": (
        "make a checkpoint from one of OPUS-MT or Marian in Hugging Face's form",
        add_import_marian,
        run_import_marian,
    ),
    "export": ("write a checkpoint in the form of transformers, CTranslate2 or ONNX", add_export, run_export),
}
"""What each one does, in the order of the help text."""
