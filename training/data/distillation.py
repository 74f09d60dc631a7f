"""A teacher's translations of a corpus, for a student to learn from beside the corpus or instead of it.

Sequence-level interpolation (Kim and Rush 2016, "Sequence-Level Knowledge Distillation", section 3.3): of the
hypotheses in the teacher's beam the one that is nearest to the reference. They vary less than what people write, so
that a student without a beam comes close to its teacher with one.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import sacrebleu
import torch

from models.checkpoint import Checkpoint
from models.interface import Decodable, Network, Precision
from training.data.sentence_pairs import Pairs
from training.errors import TrainingError
from training.evaluation.scores import hypotheses, load_model

CHUNK_PAIRS = 500  # pairs that are translated between two looks at the progress bar
ChosenTranslation = tuple[
    int, str, str
]  # which pair, the beam's first hypothesis, and the one nearest to the reference


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillationOptions:
    """beam: its width, and the number of hypotheses to choose from. slots: rows that are decoded side by side."""

    beam: int = 5
    precision: Precision = "fp32"
    slots: int = 64


class PreparedNetwork:
    """A network in one precision, whose weights are made ready once and not again for each chunk. ValueError where it
    has no such precision."""

    def __init__(self, network: Network, precision: Precision) -> None:
        self.made = network.decodable(precision)

    def decodable(self, precision: Precision = "fp32") -> Decodable:
        return self.made


class Teacher:
    def __init__(self, checkpoint: Checkpoint, network: PreparedNetwork, teaching: DistillationOptions) -> None:
        self.checkpoint, self.network, self.teaching = checkpoint, network, teaching
        # effective order: a sentence of three words has no four in a row, and would have no score
        self.metric = sacrebleu.BLEU(effective_order=True)

    @classmethod
    def load(cls, folder: Path, device: torch.device, teaching: DistillationOptions) -> Teacher:
        """TrainingError where there is no translator that can be loaded, or not in such a precision."""
        checkpoint, network = load_model(folder, device)
        if checkpoint.config.kind != "translator":
            raise TrainingError(f"{folder} is a lyricist, and only a translator can teach one.")
        try:
            return cls(checkpoint, PreparedNetwork(network, teaching.precision), teaching)
        except ValueError as error:
            raise TrainingError(str(error)) from error

    def fits(self, source: str) -> bool:
        """Whether the model is served with sources of that length; it has learnt little of longer ones."""
        return len(self.checkpoint.source_ids(source)) <= self.checkpoint.config.max_source_tokens

    def hypotheses(self, sources: Sequence[str]) -> list[list[str]]:
        """Of each source the beam's, best first; at least one, which may be empty."""
        how = self.teaching
        return hypotheses(
            self.checkpoint,
            self.network,
            sources,
            beam=how.beam,
            n_best=how.beam,
            slots=how.slots,
        )

    def nearest(self, hypotheses: Sequence[str], reference: str) -> str:
        """By sentence BLEU; of equals the one that the teacher likes best."""
        return max(hypotheses, key=lambda text: self.metric.sentence_score(text, [reference]).score)

    def choose(self, pairs: Sequence[tuple[int, str, str]]) -> list[ChosenTranslation]:
        """pairs: which one, its source and its reference."""
        found = self.hypotheses([source for _, source, _ in pairs])
        return [
            (index, each[0], self.nearest(each, reference))
            for (index, _, reference), each in zip(pairs, found, strict=True)
        ]


def chunks(pairs: Pairs, indices: Sequence[int]) -> list[list[tuple[int, str, str]]]:
    """Of like lengths, so that few rows wait for longer ones; the longest first, lest one process ends late."""
    order = sorted(indices, key=lambda i: len(pairs.sources[i]), reverse=True)
    rows = [(i, pairs.sources[i], pairs.targets[i]) for i in order]
    return [rows[start : start + CHUNK_PAIRS] for start in range(0, len(rows), CHUNK_PAIRS)]


_teacher: Teacher | None = None  # of a process that helps


def _start_process(folder: Path, threads: int, teaching: DistillationOptions) -> None:
    global _teacher
    torch.set_num_threads(threads)
    _teacher = Teacher.load(folder, torch.device("cpu"), teaching)


def _translate_chunk(part: list[tuple[int, str, str]]) -> list[ChosenTranslation]:
    assert _teacher is not None
    return _teacher.choose(part)


def translate_chunks(
    teacher: Teacher, folder: Path, parts: Sequence[list[tuple[int, str, str]]], processes: int = 1
) -> Iterator[list[ChosenTranslation]]:
    """Each part as soon as it is done, in any order. folder: where processes of one's own load the teacher from."""
    if processes == 1:
        yield from map(teacher.choose, parts)
        return
    threads = max(1, torch.get_num_threads() // processes)
    begin = (folder, threads, teacher.teaching)
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _start_process, begin) as pool:
        try:
            for done in as_completed([pool.submit(_translate_chunk, part) for part in parts]):
                yield done.result()
        except BrokenProcessPool:
            raise TrainingError("A process of this command has died, perhaps for lack of memory.") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
