"""General pairs mixed into the pairs of a run, so that a tuned model does not forget what it could before."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from training.config.run_config import CleaningConfig
from training.data.cleaning import HeldOutIndex, clean, comparison_key, hold_out
from training.data.corpus_loading import parse_columns, read_corpora
from training.data.segmentation import PairIds
from training.data.sentence_pairs import Pairs
from training.data.token_array import JoinedTokens, TokenArray, token_rows
from training.errors import pluralize

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
