"""The options of multilingual runs, and the language pairs that their corpus arguments name."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

from training.cli.command_options import RunRequest, add_override
from training.config.corpus_languages import CorpusLanguages, missing_languages, pair_name, split_languages
from training.config.run_config import MULTIPLE_LANGUAGES, TranslatorConfig, raise_all
from training.config.run_file import CorpusArgument, without_languages

ROLES = ("train", "valid", "test")


def add_multilingual(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--multilingual",
        action="store_true",
        help="one model for the language pairs that --train, --valid and --test name: de-en:pairs.tsv en-fr:more.tsv;"
        " de<>en:pairs.tsv for both directions; de-en,de-fr:memory.tmx for several pairs of one file",
    )
    text = "of --multilingual: train on every corpus in both directions"
    command.add_argument("--both-directions", action="store_true", help=text)
    text = "of --multilingual: the larger, the more alike the pairs' shares of an epoch (default: 5; 1: as they are)"
    add_override(command, "--sampling-temperature", "multilingual.sampling_temperature", "T", text)


def problems_beside_multilingual(arguments: argparse.Namespace) -> Iterator[str]:
    """Options that a multilingual run does not take."""
    if arguments.multilingual and arguments.start_from:
        yield "--from tunes one language pair: leave --multilingual out, and name the pair with --source and --target"
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
        if role not in ROLES:
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
    for role in ROLES:
        named = request.data.get(role, [])
        listed = [named] if isinstance(named, str) else named
        if role != "train" and len(listed) > 1:
            yield f"--{role} takes one corpus, not {len(listed)}: only --multilingual takes several"
        for argument in listed:
            if without_languages(argument) != argument:
                yield f"--{role} {argument} names languages: add --multilingual, or give --source and --target alone"
