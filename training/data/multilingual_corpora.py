"""The corpora of a multilingual run: read, cleaned and held out pair by pair, then joined, each source behind the token
of its target language (>>de<<)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from training.config.corpus_languages import LanguageCodes, pair_name, split_languages
from training.config.run_config import TranslatorConfig
from training.data.cleaning import HeldOutIndex, clean, comparison_key, hold_out
from training.data.corpus_loading import parse_columns, read_pairs
from training.data.segmentation import epoch_sizes
from training.data.sentence_pairs import MOST_LINES, CorpusReport, PairCollector, Pairs, join_corpora
from training.data.tables import Columns
from training.data.tokenizer_training import language_token
from training.errors import TrainingError

Corpora = dict[LanguageCodes, Pairs]


def read_multilingual_corpora(
    data: Mapping[str, Any], config: TranslatorConfig
) -> tuple[Pairs, Pairs | None, Pairs | None]:
    """Joined training, validation and test pairs, as `read_run_corpora` returns them for one language pair. Pairs that
    a held-out set has in the other direction are left out of training, too."""
    columns, cleaning = parse_columns(data.get("columns")), config.cleaning
    skip = cleaning.malformed == "skip"
    corpora = read_by_languages(data["train"], columns, skip_malformed=skip)
    valid, test = (read_by_languages(data.get(role), columns) for role in ("valid", "test"))
    train: Corpora = {}
    for languages in config.multilingual.pairs:
        held = {"validation": valid.get(languages), "test": test.get(languages)}
        train[languages] = clean(corpora[languages], cleaning, **held)
        if languages not in valid:
            train[languages], held_out = hold_out(train[languages], config.loop.seed)
            if held_out is not None:
                valid[languages] = held_out
    for source, target in train:
        for held_out_pairs in (valid.get((target, source)), test.get((target, source))):
            if held_out_pairs is not None:
                train[source, target] = _without_reversed(train[source, target], held_out_pairs, (target, source))
    sizes = epoch_sizes([len(pairs) for pairs in train.values()], config.multilingual.sampling_temperature)
    for (languages, pairs), size in zip(train.items(), sizes, strict=True):
        if size > len(pairs):
            report = pairs.reported()
            report.notes.append(f"an epoch reads {size:,} pairs of it, each {size / len(pairs):.1f} times")
            train[languages] = replace(pairs, report=report)
    ordered = ({languages: held[languages] for languages in train if languages in held} for held in (valid, test))
    valid_pairs, test_pairs = (joined_corpora(held) if held else None for held in ordered)
    return joined_corpora(train), valid_pairs, test_pairs


def read_by_languages(
    arguments: str | Sequence[str] | None, columns: Columns | None = None, *, skip_malformed: bool = False
) -> Corpora:
    """Reads corpus arguments with languages; each argument gives the pairs of one or more directions."""
    found: dict[LanguageCodes, list[Pairs]] = {}
    for argument in [arguments] if isinstance(arguments, str) else arguments or ():
        languages = split_languages(argument)
        assert languages is not None, "the command line checks the spelling"
        for (source, target), both in languages.pairs:
            pairs = read_pairs(languages.corpus, (source, target), columns, skip_malformed=skip_malformed)
            found.setdefault((source, target), []).append(pairs)
            if both:
                found.setdefault((target, source), []).append(swapped(pairs))
    return {languages: join_corpora(parts) for languages, parts in found.items()}


def swapped(pairs: Pairs) -> Pairs:
    """The pairs in the other direction."""
    report = pairs.reported()
    report.swap_sides()
    return replace(pairs, sources=pairs.targets, targets=pairs.sources, report=report)


def _without_reversed(pairs: Pairs, held_out: Pairs, languages: LanguageCodes) -> Pairs:
    """The pairs that share no side with the held-out pairs of the other direction."""
    index, kept, report = HeldOutIndex(swapped(held_out)), array("Q"), pairs.reported()
    for place, (source, target) in enumerate(zip(pairs.sources, pairs.targets, strict=True)):
        if index.count(comparison_key(source), comparison_key(target)) is None:
            kept.append(place)
        else:
            reason = f"shares a side with a held-out pair of {pair_name(languages)}"
            report.drop(reason, pairs.place(place), source, target)
    if not kept:
        raise TrainingError(f"{pairs.origin} has no pair that the held-out pairs of {pair_name(languages)} lack.")
    return pairs.only(kept, pairs.origin, report)


def joined_corpora(corpora: Corpora) -> Pairs:
    """One corpus of all. Each source begins with the token of its target language."""
    collector, lines, files = PairCollector(), array("Q"), list[str]()
    whole = CorpusReport(" + ".join(dict.fromkeys(pairs.origin for pairs in corpora.values())))
    for languages, pairs in corpora.items():
        token, first = language_token(languages[1]), len(files) * MOST_LINES
        for source, target in zip(pairs.sources, pairs.targets, strict=True):
            collector.add(f"{token} {source}", target)
        lines.extend(first + line for line in pairs.lines or range(1, len(pairs) + 1))
        files += pairs.files or (pairs.origin,)
        whole.language_pairs[pair_name(languages)] = report = pairs.reported()
        whole.add(report)
        whole.held_out += report.held_out
    parts = tuple((pair_name(languages), len(pairs)) for languages, pairs in corpora.items())
    return Pairs(*collector.finish(), whole.origin, tuple(files), lines, whole, parts=parts)
