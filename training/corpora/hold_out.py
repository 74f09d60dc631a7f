"""Validation pairs out of the training pairs, where none were given."""

from __future__ import annotations

import random

from training.corpora.overlap import comparable
from training.corpora.pairs import Pairs
from training.wording import counted


def hold_out(pairs: Pairs, seed: int, share: float = 0.02, most: int = 1000) -> tuple[Pairs, Pairs | None]:
    """Training and validation pairs. Fewer than 100 pairs: none is spared.

    Pairs that share a source or a target with a held-out one, but for case and white space, go with it, so that
    none is scored on what it saw.
    """
    if len(pairs) < 100:
        return pairs, None
    order = random.Random(seed).sample(range(len(pairs)), min(most, max(10, int(len(pairs) * share))))
    chosen = set(order)
    sources, targets = {comparable(pairs.sources[i]) for i in order}, {comparable(pairs.targets[i]) for i in order}
    rest, report = [], pairs.reported()
    for index, (source, target) in enumerate(zip(pairs.sources, pairs.targets, strict=True)):
        if comparable(source) not in sources and comparable(target) not in targets:
            rest.append(index)
        elif index not in chosen:
            report.drop("shares a side with a held-out pair", pairs.place(index), source, target)
    if not rest:
        return pairs, None
    report.held_out = len(chosen)
    held_out = f"{counted(len(chosen), 'pair')} held out of {pairs.origin}"
    return (
        pairs.only(rest, dropped=pairs.dropped, origin=pairs.origin, report=report),
        pairs.only(sorted(chosen), dropped=0, origin=held_out, report=None),
    )
