"""General pairs mixed into each epoch."""

from __future__ import annotations

from collections import Counter

import pytest

from training.config.run_config import CleaningConfig
from training.data.run_corpora import MixedEpochs, drawn_indices, read_mix
from training.data.segmentation import PairIds
from training.data.sentence_pairs import Pairs


@pytest.mark.parametrize(("share", "drawn"), [(0.5, 60), (0.25, 20), (0.8, 240), (0.0, 0)])
def test_share_of_general_pairs_in_an_epoch(share: float, drawn: int) -> None:
    indices = drawn_indices(60, 100, share, seed=1, epoch=0)
    assert len(indices) == drawn
    counts = Counter(indices)
    assert max(counts.values(), default=0) - min((counts[i] for i in range(100)), default=0) <= 1


def test_draw_depends_on_seed_and_epoch_alone() -> None:
    draws = [drawn_indices(60, 1000, 0.5, seed, epoch) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
    assert drawn_indices(60, 1000, 0.5, 1, 0) == draws[0]
    assert len({tuple(draw) for draw in draws}) == 3


def test_epoch_holds_all_training_pairs_and_the_drawn_ones() -> None:
    def train(epoch: int) -> PairIds:
        return [(1, epoch), (2, epoch)], [(3,), (4,)]

    def general(epoch: int) -> PairIds:
        return [(10 + i,) for i in range(50)], [(60 + i,) for i in range(50)]

    mixed = MixedEpochs(train, general, 0.5, seed=1)
    sources, targets = mixed.epoch(3)
    indices = drawn_indices(2, 50, 0.5, 1, 3)
    assert list(sources) == [(1, 3), (2, 3), *((10 + i,) for i in indices)]
    assert list(targets) == [(3,), (4,), *((60 + i,) for i in indices)]


def test_mix_is_cleaned_and_kept_apart_from_held_out_and_training_pairs(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("mix") / "general.tsv"
    rows = [f"satz {i}\tsentence {i}" for i in range(300)]
    path.write_text("\n".join([*rows, "satz 7\tsentence 7", "gehalten\theld", "geprüft\ttested"]) + "\n")
    valid, test = Pairs(["gehalten"], ["held"], "valid"), Pairs(["geprüft"], ["tested"], "test")
    train = Pairs([f"satz {i}" for i in range(0, 300, 2)], [f"clause {i}" for i in range(0, 300, 2)], "train")
    mix, held_out = read_mix({"mix": str(path)}, ("de", "en"), CleaningConfig(ratio=None), 1, (train, valid, test))
    assert held_out is not None
    assert not {"gehalten", "geprüft"} & {*mix.sources, *held_out.sources}
    assert not {*held_out.sources} & {*mix.sources, *train.sources}
    assert mix.reported().dropped["exact duplicate"].count == 1
    assert len(held_out) >= 2
