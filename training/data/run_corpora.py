"""The corpora of a run, by their roles: read, cleaned and held out, for one language pair or several; and the general
pairs of --mix, so that a tuned model does not forget what it could before. A large corpus is read, cleaned and split
once: its texts lie in files of the cache folder, found again by digest."""

from __future__ import annotations

import hashlib
import json
import os
import random
import unicodedata
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from models.checkpoint import sha256
from training.config.corpus_languages import LanguageCodes, pair_name, split_languages
from training.config.run_config import CleaningConfig, TranslatorConfig
from training.config.run_file import corpus_parts, without_languages
from training.config.shipped_corpora import shipped_corpus
from training.data.cleaning import HeldOutIndex, clean, comparison_key, hold_out
from training.data.corpus_loading import (
    HUGGINGFACE_PREFIX,
    moses_files,
    near_names,
    parse_columns,
    read_corpora,
    read_pairs,
)
from training.data.segmentation import PairIds, epoch_sizes
from training.data.sentence_pairs import MOST_LINES, CorpusReport, PairCollector, Pairs, join_corpora
from training.data.stored_corpus import (
    JoinedTokens,
    OpenFile,
    TextArray,
    TextWriter,
    TokenArray,
    blocks,
    cache_folder,
    fill_folder,
    locked,
    text_array,
    token_rows,
)
from training.data.tables import Columns
from training.data.tokenizer_training import language_token
from training.errors import TrainingError, pluralize


def require_corpora(data: Mapping[str, Any]) -> None:
    """Raises TrainingError for a file of any corpus that is missing, before the first is read: reading can take long.
    data: role -> corpora."""
    for role in ("train", "mix", "valid", "test"):
        named = data.get(role) or []
        for argument in map(without_languages, [named] if isinstance(named, str) else named):
            if argument.startswith(HUGGINGFACE_PREFIX) or shipped_corpus(argument) or Path(argument).exists():
                continue
            for path in moses_files(argument):
                if not path.exists():
                    near = near_names(path)
                    raise TrainingError(f"{path} does not exist{f', did you mean {near}?' if near else '.'}")


def read_run_corpora(
    data: Mapping[str, Any], languages: tuple[str, str], cleaning: CleaningConfig, seed: int
) -> tuple[Pairs, Pairs | None, Pairs | None]:
    """Cleaned training pairs; validation pairs, given or split off; test pairs. data: role -> corpus or columns. Large
    training pairs come from the files that an earlier run prepared, or are prepared for later ones."""
    columns = parse_columns(data.get("columns"))
    valid, test = (read_pairs(data[role], languages, columns) if data.get(role) else None for role in ("valid", "test"))
    folder = prepared_folder(data, languages, cleaning, seed)
    if folder is None:
        return *_cleaned_and_split(data, languages, cleaning, seed, valid, test), test
    with locked(folder):  # one process prepares the corpus, the others of this run wait for it
        if not folder.is_dir():
            train, held_out = _cleaned_and_split(data, languages, cleaning, seed, valid, test)
            if not train.large:
                return train, held_out, test
            save_prepared(folder, train, None if valid else held_out)
    train, held_out = load_prepared(folder)
    return train, valid or held_out, test


def _cleaned_and_split(
    data: Mapping[str, Any],
    languages: tuple[str, str],
    cleaning: CleaningConfig,
    seed: int,
    valid: Pairs | None,
    test: Pairs | None,
) -> tuple[Pairs, Pairs | None]:
    columns = parse_columns(data.get("columns"))
    corpora = [data["train"]] if isinstance(data["train"], str) else data["train"]  # run files may name only one
    train = read_corpora(corpora, languages, columns, skip_malformed=cleaning.malformed == "skip")
    train = clean(train, cleaning, validation=valid, test=test)
    if valid is None:
        return hold_out(train, seed)
    return train, valid


Corpora = dict[LanguageCodes, Pairs]


def read_multilingual_corpora(
    data: Mapping[str, Any], config: TranslatorConfig
) -> tuple[Pairs, Pairs | None, Pairs | None]:
    """The corpora of a multilingual run, cleaned and held out pair by pair, then joined, each source after the token of
    its target language (>>de<<): training, validation and test pairs, as `read_run_corpora` returns them for one
    language pair. Pairs that a held-out set has in the other direction are left out of training, too."""
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
                found.setdefault((target, source), []).append(pairs.swapped())
    return {languages: join_corpora(parts) for languages, parts in found.items()}


def _without_reversed(pairs: Pairs, held_out: Pairs, languages: LanguageCodes) -> Pairs:
    """The pairs that share no side with the held-out pairs of the other direction."""
    index, kept, report = HeldOutIndex(held_out.swapped()), array("Q"), pairs.reported()
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


HELD_OUT = 500  # general pairs, at most, that show what the model forgets


def read_mix(
    data: Mapping[str, Any],
    languages: tuple[str, str],
    cleaning: CleaningConfig,
    seed: int,
    own: tuple[Pairs, Pairs | None, Pairs | None],
) -> tuple[Pairs, Pairs | None]:
    """The corpora of --mix, cleaned as training pairs are, and some of them held out (None of fewer than 100). own:
    training, validation and test pairs of the run. Held-out general pairs share no source with the training pairs."""
    train, valid, test = own
    named = [data["mix"]] if isinstance(data["mix"], str) else data["mix"]
    mix = read_corpora(
        named, languages, parse_columns(data.get("columns")), skip_malformed=cleaning.malformed == "skip"
    )
    mix, held_out = hold_out(clean(mix, cleaning, validation=valid, test=test), seed, warns=False)
    if held_out is None:
        return mix, held_out
    index = HeldOutIndex(train)
    keys = zip(map(comparison_key, held_out.sources), map(comparison_key, held_out.targets), strict=True)
    unseen = [i for i, pair in enumerate(keys) if index.count(*pair) in (None, "target")][:HELD_OUT]
    return mix, held_out.only(unseen, held_out.origin) if unseen else None


def drawn_indices(train: int, general: int, share: float, seed: int, epoch: int) -> list[int]:
    """Which of `general` pairs join the `train` pairs of an epoch, such that they are `share` of all; the draw depends
    on (seed, epoch) alone. All of them are drawn once before one is drawn again."""
    wanted = round(train * share / (1 - share))
    whole, rest = divmod(wanted, general)
    drawn = random.Random(f"mix {seed} {epoch}").sample(range(general), rest)
    return [*range(general)] * whole + sorted(drawn)


class MixedEpochs:
    """The pairs of each epoch: all training pairs, then a share of general ones. train, general: the pairs of epoch 0,
    1, ..."""

    def __init__(
        self, train: Callable[[int], PairIds], general: Callable[[int], PairIds], share: float, seed: int
    ) -> None:
        self.train, self.general, self.share, self.seed = train, general, share, seed

    def epoch(self, number: int) -> PairIds:
        (sources, targets), (more_sources, more_targets) = self.train(number), self.general(number)
        indices = drawn_indices(len(sources), len(more_sources), self.share, self.seed, number)
        more = TokenArray.of(more_sources).select(indices), TokenArray.of(more_targets).select(indices)
        return JoinedTokens(token_rows(sources), more[0]), JoinedTokens(token_rows(targets), more[1])


def mix_summary(mix: Pairs, train: int, share: float) -> str:
    """A clause about the general pairs for the console and the model card."""
    each = round(train * share / (1 - share))
    drawn = f"{pluralize(each, 'general pair')} in each epoch, {share:.3g} of its pairs"
    return f"{drawn}, drawn from the {len(mix):,} of {mix.origin}"


FORMAT = 1  # of the files below and of the cleaning rules; part of the digest
LEAST_BYTES = 8_000_000  # of files; a smaller corpus is small, whatever its compression
TEXTS, LENGTHS, LINES, DESCRIPTION = "{}.texts", "{}.lengths", "lines", "corpus.json"
SIDES = ("source", "target")


def prepared_folder(
    data: Mapping[str, Any], languages: tuple[str, str], cleaning: CleaningConfig, seed: int
) -> Path | None:
    """Where the training pairs of this run lie, if it has prepared them; None for a corpus that is small, or of which
    there is no file to tell by. seed: of the held-out pairs."""
    corpora = {role: data[role] for role in ("train", "valid", "test") if data.get(role)}
    files = {role: [Path(part) for part in corpus_parts(named)] for role, named in corpora.items()}
    if not all(path.is_file() for paths in files.values() for path in paths):
        return None
    if sum(path.stat().st_size for path in files["train"]) < LEAST_BYTES:
        return None
    digests = {role: [sha256(path) for path in paths] for role, paths in files.items()}
    what = FORMAT, unicodedata.unidata_version, corpora, digests, data.get("columns"), languages, asdict(cleaning)
    name = hashlib.sha256(repr((*what, None if data.get("valid") else seed)).encode()).hexdigest()[:16]
    return cache_folder() / "corpora" / name


def save_prepared(folder: Path, train: Pairs, valid: Pairs | None) -> None:
    """Writes the training pairs, and the validation pairs that were held out of them. The caller holds the lock."""

    def fill(aside: Path) -> None:
        for side, texts in zip(SIDES, (train.sources, train.targets), strict=True):
            writer = TextWriter(aside / TEXTS.format(side))
            for block in blocks(texts):
                writer.extend(block)
            writer.finish().bytes_of.tofile(aside / LENGTHS.format(side))
        with (aside / LINES).open("wb") as file:
            (train.lines or array("Q")).tofile(file)
        description = {
            "origin": train.origin,
            "files": train.files,
            "report": train.reported().as_json(),
            "valid": valid and [valid.origin, list(valid.sources), list(valid.targets)],
        }
        (aside / DESCRIPTION).write_text(json.dumps(description), encoding="utf-8")
        os.sync()

    fill_folder(folder, fill)


def load_prepared(folder: Path) -> tuple[Pairs, Pairs | None]:
    """TrainingError if the files are incomplete."""
    description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    lines = array("Q", (folder / LINES).read_bytes())
    sources, targets = (_texts(folder, side) for side in SIDES)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    report = CorpusReport.from_json(description["report"])
    report.notes.append(
        f"prepared in {folder} ({size / 1e9:.1f} GB), which later runs on the same corpus use; remove the folder to"
        " free the space"
    )
    train = Pairs(sources, targets, description["origin"], tuple(description["files"]), lines or None, report, folder)
    valid = description["valid"]
    return train, valid and Pairs(valid[1], valid[2], valid[0])


def _texts(folder: Path, side: str) -> TextArray:
    file = OpenFile(os.open(folder / TEXTS.format(side), os.O_RDONLY))
    lengths = np.fromfile(folder / LENGTHS.format(side), np.uint32)
    if os.fstat(file.number).st_size != int(lengths.sum(dtype=np.int64)):
        raise TrainingError(f"{folder} is damaged: remove it, and the run makes it again.")
    return text_array(file, lengths)
