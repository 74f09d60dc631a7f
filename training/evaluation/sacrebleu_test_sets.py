"""Public test sets by the names that sacreBLEU gives them, downloaded and verified by sacreBLEU."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.dataset import DATASETS
from sacrebleu.utils import get_reference_files, get_source_file

from training.config.overrides import did_you_mean
from training.data.parallel_files import read_moses
from training.data.sentence_pairs import Pairs, collect_pairs
from training.errors import TrainingError
from training.evaluation.hypothesis_files import read_hypotheses

PREFIX = "sacrebleu:"


def is_test_set(name: str) -> bool:
    return name.partition(":")[0] in DATASETS and not Path(name).exists()


def read_test_set(argument: str, languages: tuple[str, str] | None) -> tuple[Pairs, list[Sequence[str]]]:
    """`sacrebleu:NAME` or `sacrebleu:NAME/SOURCE-TARGET`, such as sacrebleu:wmt20/de-en -> the pairs with the first
    reference, and all references. languages: of a name without a pair. TrainingError for an unknown name or pair, or a
    failed download."""
    name = argument.removeprefix(PREFIX)
    pair = "-".join(languages) if languages else ""
    if name not in DATASETS:
        name, _, pair = name.replace(":", "/").rpartition("/")
    if name not in DATASETS:
        name = argument.removeprefix(PREFIX)
        guess = did_you_mean(difflib.get_close_matches(name, DATASETS, 1))
        raise TrainingError(f"sacreBLEU has no test set {name!r}{guess}: `sacrebleu --list` prints all names.")
    pairs = DATASETS[name].langpairs
    if pair not in pairs:
        problem = f"has no pair {pair}" if pair else "needs a pair"
        raise TrainingError(
            f"sacreBLEU's {name} {problem}; it has {', '.join(pairs)}: {PREFIX}{name}/{next(iter(pairs))}."
        )
    try:
        source, references = get_source_file(name, pair), get_reference_files(name, pair)
    except (Exception, SystemExit) as error:  # of the network, of damaged files, and exits after its own message
        reason = str(getattr(error, "reason", error)).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise TrainingError(
            f"{argument} cannot be downloaded ({reason}): try again with a network, or give the files themselves."
        ) from error
    first, *others = map(Path, references)
    found = collect_pairs(read_moses(Path(source), first), argument)
    return found, [found.targets, *(read_hypotheses(path, found) for path in others)]
