"""The commands that train, `translator` of one or several language pairs and `lyrics`, and `recipes`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from models.checkpoint import Checkpoint
from training.cli.command_options import (
    PAIRS,
    RunRequest,
    add_cleaning,
    add_columns,
    add_configuration,
    add_run,
    add_start,
    build_request,
    read_start,
    start_run,
)
from training.config.corpus_languages import CorpusLanguages, missing_languages, pair_name, split_languages
from training.config.overrides import Override
from training.config.recipes import LYRICISTS, MEDIUM_TEXT, TRANSLATORS, Recipe, lyricist_for
from training.config.run_config import MULTIPLE_LANGUAGES, TranslatorConfig
from training.config.run_file import RUN_FILE, CorpusArgument, explained_config, read_run_file, without_languages
from training.config.shipped_corpora import LANGUAGES, shipped_corpus
from training.data.corpus_loading import HUGGINGFACE_PREFIX, parse_columns, read_pairs, read_text
from training.data.run_corpora import read_mix, read_multilingual_corpora, read_run_corpora, require_corpora
from training.data.sentence_pairs import Pairs
from training.errors import TrainingError, pluralize, program, raise_all
from training.evaluation.alignment_heads import aligned_phrases
from training.evaluation.bleu_validator import subsample
from training.evaluation.model_outputs import translate
from training.evaluation.scores import Scores
from training.lyricist_run import train_lyricist
from training.starting_point import StartingPoint
from training.translator_run import train_translator

NOT_VALIDATED = (
    "Too few pairs to hold some out: nothing is validated, and the last weights are kept; --valid FILE takes pairs of"
    " your own."
)
REQUIRED = {"source_language": "--source", "target_language": "--target", "train": "--train"}
MULTILINGUAL_ROLES = ("train", "valid", "test")
OLD_DOMAIN_SENTENCES = 300


def add_translator(command: argparse.ArgumentParser) -> None:
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
    dropout = {"network.residual_dropout": "--dropout RATE"}
    add_configuration(command, TRANSLATORS, "tiny, or finetune with --from", dropout)
    text = "of a new network: an existing one, of a checkpoint folder, a SentencePiece .model file, or SOURCE,TARGET"
    command.add_argument("--tokenizer", metavar="FOLDER|FILE", help=text)
    add_run(command)


def run_translator(arguments: argparse.Namespace) -> Scores:
    data = {name: getattr(arguments, name) for name in ("train", "mix", "valid", "test", "columns")}
    for role in ("valid", "test"):
        if data[role] and len(data[role]) == 1 and not arguments.multilingual:
            (data[role],) = data[role]
    data |= {"from": arguments.start_from, "tokenizer": arguments.tokenizer}
    raise_all(problems_beside_multilingual(arguments))
    _take_languages_of_shipped_corpus(arguments)
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
    earlier = None
    if start is not None and mix is None and not config.tuning.other_languages and workers.writes:
        earlier = old_domain(start, run.device)
        if earlier is None:
            workers.note("What it forgets of its old domain is not measured: no pairs of it are recorded; give --mix.")
    tokenizers = request.tokenizers
    return train_translator(
        config, train, valid, run, start=start, tokenizers=tokenizers, mix=mix, earlier=earlier, test=test,
        aligned=aligned_phrases(config.pairs) if start is None and reads_everyday(request) else (),
    )  # fmt: skip


def reads_everyday(request: RunRequest[TranslatorConfig]) -> bool:
    """Whether the corpus that comes with this project is among the training data."""
    named = request.data.get("train", ())
    corpora = [named] if isinstance(named, str) else named
    return any(shipped_corpus(found.corpus if (found := split_languages(each)) else each) for each in corpora)


def _take_languages_of_shipped_corpus(arguments: argparse.Namespace) -> None:
    """--train everyday:de-en says what --source and --target would."""
    named = {corpus.languages for name in arguments.train or () if (corpus := shipped_corpus(name))}
    if len(named) != 1 or (languages := named.pop()) is None:
        return
    given = {override.key for override in arguments.overrides}
    for key, code in zip(("source_language", "target_language"), languages, strict=True):
        if key not in given:
            arguments.overrides.append(Override(key, code, "--train", is_text=True))


def add_multilingual(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--multilingual",
        action="store_true",
        help="one model for the language pairs that --train, --valid and --test name: de-en:pairs.tsv en-fr:more.tsv;"
        " de<>en:pairs.tsv for both directions; de-en,de-fr:memory.tmx for several pairs of one file",
    )
    text = "of --multilingual: train on every corpus in both directions"
    command.add_argument("--both-directions", action="store_true", help=text)


def problems_beside_multilingual(arguments: argparse.Namespace) -> Iterator[str]:
    """Options that a multilingual run does not take."""
    if arguments.multilingual and arguments.mix:
        yield "--mix is for one language pair: add its corpora to --train, with their languages"


def multilingual_request(
    arguments: argparse.Namespace, request: RunRequest[TranslatorConfig]
) -> RunRequest[TranslatorConfig]:
    """The request with the language pairs of its corpora; unchanged for a run of one pair. CannotStart with every
    problem of the corpus arguments."""
    multilingual = arguments.multilingual or bool(request.config.multilingual.pairs)
    if not multilingual:
        raise_all(_problems_of_one_pair(arguments, request))
        return request
    given = [f"--{side}" for side in ("source", "target") if any(o.origin == f"--{side}" for o in arguments.overrides)]
    problems = [f"{option} contradicts --multilingual, whose --train names the languages" for option in given]
    data = dict[str, CorpusArgument]()
    corpora = dict[str, list[CorpusLanguages]]()
    for role, named in request.data.items():
        if role not in MULTILINGUAL_ROLES:
            data[role] = named
            continue
        corpora[role] = []
        for argument in [named] if isinstance(named, str) else named:
            languages = split_languages(argument)
            if languages is None:
                problems.append(missing_languages(f"--{role}", argument))
            else:
                corpora[role].append(languages.in_both_directions() if arguments.both_directions else languages)
        data[role] = [str(languages) for languages in corpora[role]]
    pairs = dict.fromkeys(pair for languages in corpora.get("train", ()) for pair in languages.directions)
    for source, target in pairs:
        if source == target:
            problems.append(f"--train names {source} twice in {pair_name((source, target))}: a pair has two languages")
    for role in ("valid", "test"):
        held_out = dict.fromkeys(pair for languages in corpora.get(role, ()) for pair in languages.directions)
        others = [pair_name(pair) for pair in held_out if pairs and pair not in pairs]
        problems += [f"--{role} has {name}, which no --train has" for name in others]
    raise_all(problems)
    names = ",".join(map(pair_name, pairs))
    settings = replace(request.config.multilingual, language_pairs=names)
    config = replace(
        request.config,
        multilingual=settings,
        source_language=MULTIPLE_LANGUAGES,
        target_language=MULTIPLE_LANGUAGES,
    )
    return replace(request, config=config, data=data)


def _problems_of_one_pair(arguments: argparse.Namespace, request: RunRequest[TranslatorConfig]) -> Iterator[str]:
    if arguments.both_directions:
        yield "--both-directions needs --multilingual"
    for role in MULTILINGUAL_ROLES:
        named = request.data.get(role, [])
        listed = [named] if isinstance(named, str) else named
        if role != "train" and len(listed) > 1:
            yield f"--{role} takes one corpus, not {len(listed)}: only --multilingual takes several"
        for argument in listed:
            if without_languages(argument) != argument:
                yield f"--{role} {argument} names languages: add --multilingual, or give --source and --target alone"


def old_domain(start: StartingPoint, device: torch.device) -> Pairs | None:
    """Pairs that show what a model forgets while it is tuned without --mix: of the validation or training data that its
    folder records, if they are still there; else its own translations of everyday sentences, which a model that forgets
    nothing writes again. None where neither is to be had."""
    source, target = start.config.source_language, start.config.target_language
    if source is None or target is None:
        return None
    return _recorded_pairs(Path(start.given), source, target) or _own_translations(start, source, device)


def _recorded_pairs(folder: Path, source: str, target: str) -> Pairs | None:
    try:
        file = read_run_file(folder / RUN_FILE, "translator")
        for role in ("valid", "train"):
            named = file.located(role)
            if any(file.changed_files(role)):  # of the same name, in the place of what the model was trained on
                continue
            for corpus in [named] if isinstance(named, str) else named or []:
                if corpus.startswith(HUGGINGFACE_PREFIX):  # which might have to be downloaded
                    continue
                pairs = read_pairs(corpus, (source, target), parse_columns(file.data.get("columns")))
                return replace(
                    subsample(pairs, OLD_DOMAIN_SENTENCES), origin=f"its own {role} pairs of before, {corpus}"
                )
    except (TrainingError, OSError, AttributeError, TypeError):  # a file of another machine or make
        pass
    return None


def _own_translations(start: StartingPoint, source: str, device: torch.device) -> Pairs | None:
    language = source.replace("_", "-").partition("-")[0].lower()
    if language not in LANGUAGES:
        return None
    other = next(code for code in LANGUAGES if code != language)
    some = subsample(read_pairs("everyday-test", (language, other)), OLD_DOMAIN_SENTENCES).sources
    checkpoint = Checkpoint(Path(start.given), start.config, start.tokenizers)
    outputs = translate(checkpoint, start.network({}).to(device), some)
    return Pairs(some, outputs, "its own translations of everyday sentences before")


def add_lyrics(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--corpus",
        metavar="CORPUS",
        help="a text file, a folder of .txt files, .jsonl, each .gz too, or songs-zh, songs-en, everyday-zh, …",
    )
    add_start(command)
    text = f"small, or medium from {MEDIUM_TEXT:,} characters on, or finetune with --from"
    add_configuration(command, LYRICISTS, text, {"network.cell": "--cell CELL", "network.dropout": "--dropout RATE"})
    add_run(command)


def run_lyrics(arguments: argparse.Namespace) -> Scores:
    data, required = {"corpus": arguments.corpus, "from": arguments.start_from}, {"corpus": "--corpus"}
    start = read_start(arguments, "lyrics")
    request = build_request(arguments, LYRICISTS, "finetune" if start else lyricist_for(0), data, required, start)
    run = start_run(arguments, request)
    corpus = str(request.data["corpus"])
    text = read_text(Path(corpus))
    if not text.strip():
        raise TrainingError(f"{corpus} has no text.")
    if all("\t" in line for line in text.splitlines() if line.strip()):
        arguments.workers.note(f"note: every line of {corpus} holds a tab: a translator, not a lyricist, learns pairs.")
    # without a named recipe the length of the text chooses it, so the configuration is built again
    recipe = "finetune" if start else lyricist_for(len(text))
    config = build_request(arguments, LYRICISTS, recipe, data, required, start).config
    arguments.workers.note(f"Recipe {config.recipe}, a text of {pluralize(len(text), 'character')}.")
    return train_lyricist(config, text, run, origin=corpus, start=start)


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
