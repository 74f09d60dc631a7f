"""The made railway corpus: parts without overlap."""

from __future__ import annotations

from pathlib import Path

from benchmarks.railway_talk import corpus, write

PARTS = corpus()


def test_no_sentence_is_in_two_parts() -> None:
    sizes = {part: len(pairs) for part, pairs in PARTS.items()}
    assert sizes == {"train": 2000, "valid": 300, "test": 500}
    everything = [pair for pairs in PARTS.values() for pair in pairs]
    assert len({pair.source for pair in everything}) == len({pair.target for pair in everything}) == 2800


def test_half_of_the_test_set_has_patterns_that_training_lacks() -> None:
    training = {pair.pattern for pair in PARTS["train"]}
    unseen = {part: [pair for pair in PARTS[part] if pair.unseen_pattern] for part in ("valid", "test")}
    assert [len(pairs) for pairs in unseen.values()] == [150, 250]
    patterns = [{pair.pattern for pair in pairs} for pairs in unseen.values()]
    assert [len(part) for part in patterns] == [20, 30]
    assert not patterns[0] & patterns[1] and not training & (patterns[0] | patterns[1])


def test_varied() -> None:
    assert len({pair.pattern for pairs in PARTS.values() for pair in pairs}) >= 120
    lengths = {len(pair.source.split()) for pair in PARTS["train"]}
    assert min(lengths) <= 4
    assert max(lengths) >= 25
    for side in ("source", "target"):
        words = {word.strip(".,;:!?") for pair in PARTS["train"] for word in getattr(pair, side).split()}
        assert len({word for word in words if word.isalpha()}) >= 700


def test_written_line_by_line(tmp_path: Path) -> None:
    write(PARTS, tmp_path / "railway")
    lines = (tmp_path / "railway" / "test.de").read_text(encoding="utf-8").split("\n")
    assert lines == [*(pair.source for pair in PARTS["test"]), ""]
