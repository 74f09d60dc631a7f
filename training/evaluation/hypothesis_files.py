"""Files of translations, one a line: those written by `evaluate --output`, and outputs of other systems.

Line n belongs to line n of the test set. Pairs with an empty side are not scored, and keep their line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from training.data.corpus_files import numbered_lines
from training.data.sentence_pairs import MOST_LINES, Pairs, one_line
from training.errors import TrainingError, pluralize


def lines_of_pairs(pairs: Pairs) -> tuple[list[int], int]:
    """The index of each pair's line, and the number of lines. A test set whose line numbers count something else, such
    as the lines of an XML file, has one line for each pair that is kept."""
    read = pairs.reported().read
    if pairs.lines is None or read == len(pairs):
        return list(range(len(pairs))), len(pairs)
    indices = [line % MOST_LINES - 1 for line in pairs.lines]
    return (indices, read) if max(indices) < read else (list(range(len(pairs))), len(pairs))


def read_hypotheses(path: Path, pairs: Pairs) -> list[str]:
    """One text for each pair. TrainingError if the file has another number of lines than the test set."""
    texts = [line.strip() for _, line in numbered_lines(path)]
    if len(texts) == len(pairs):
        return texts
    indices, count = lines_of_pairs(pairs)
    if len(texts) != count:
        raise TrainingError(
            f"{path} has {pluralize(len(texts), 'line')} and {pairs.origin} {pluralize(count, 'pair')}: line n must"
            " translate pair n."
        )
    return [texts[index] for index in indices]


def hypothesis_lines(outputs: Sequence[str], pairs: Pairs) -> list[str]:
    """The outputs, with empty lines for pairs that were left out."""
    indices, count = lines_of_pairs(pairs)
    lines = [""] * count
    for index, output in zip(indices, outputs, strict=True):
        lines[index] = one_line(output)
    return lines


def write_hypotheses(path: Path, outputs: Sequence[str], pairs: Pairs) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in hypothesis_lines(outputs, pairs)), encoding="utf-8", newline="\n")
