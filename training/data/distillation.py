"""A teacher's translations of a corpus, to train a student on, alone or beside the corpus.

Sequence-level interpolation (Kim and Rush 2016, "Sequence-Level Knowledge Distillation", section 3.3): selects the
hypothesis in the teacher's beam that is closest to the reference. These vary less than human translations, so that a
greedy student comes close to its teacher's beam search."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import sacrebleu
import torch

from models.backends.select import decodable
from models.interface import Decodable, Precision
from training.data.sentence_pairs import Pairs
from training.errors import TrainingError
from training.evaluation.model_outputs import hypotheses, load_model

CHUNK_PAIRS = 500  # between two updates of the progress bar
NumberedPair = tuple[int, str, str]  # index, source, reference
ChosenTranslation = tuple[int, str, str]  # index, the beam's first hypothesis, and the closest to the reference


class Teacher:
    """A teacher with `beam` hypotheses per source. TrainingError if `folder` has no translator for `precision`."""

    def __init__(self, folder: Path, device: torch.device, beam: int, precision: Precision = "fp32") -> None:
        self.folder, self.beam, self.precision = folder, beam, precision
        self.checkpoint, network = load_model(folder, device)
        if self.checkpoint.config.kind != "translator":
            raise TrainingError(f"{folder} is a lyricist, and only a translator can teach one.")
        try:
            self._decodable = decodable(network, precision)
        except ValueError as error:
            raise TrainingError(str(error)) from error
        # effective order: a three-word sentence has no 4-grams and would otherwise score 0
        self.metric = sacrebleu.BLEU(effective_order=True)

    def decodable(self, precision: Precision = "fp32") -> Decodable:
        """The network, with weights converted once instead of per chunk."""
        return self._decodable

    def fits(self, source: str) -> bool:
        """Whether the model is served with sources of this length; it is poorly trained on longer ones."""
        return len(self.checkpoint.source_ids(source)) <= self.checkpoint.config.max_source_tokens

    def hypotheses(self, sources: Sequence[str]) -> list[list[str]]:
        return hypotheses(self.checkpoint, self, sources, beam=self.beam, n_best=self.beam)

    def nearest(self, hypotheses: Sequence[str], reference: str) -> str:
        """The hypothesis with the best sentence BLEU; ties go to the most probable."""
        return max(hypotheses, key=lambda text: self.metric.sentence_score(text, [reference]).score)

    def choose(self, pairs: Sequence[NumberedPair]) -> list[ChosenTranslation]:
        beams = self.hypotheses([source for _, source, _ in pairs])
        return [
            (index, beam[0], self.nearest(beam, reference))
            for (index, _, reference), beam in zip(pairs, beams, strict=True)
        ]


def split_into_chunks(pairs: Pairs, indices: Sequence[int]) -> list[list[NumberedPair]]:
    """Chunks of similar lengths, to reduce padding; the longest first, so that no process finishes late."""
    order = sorted(indices, key=lambda i: len(pairs.sources[i]), reverse=True)
    rows = [(i, pairs.sources[i], pairs.targets[i]) for i in order]
    return [rows[start : start + CHUNK_PAIRS] for start in range(0, len(rows), CHUNK_PAIRS)]


_teacher: Teacher | None = None  # of a worker process


def _start_process(threads: int, folder: Path, beam: int, precision: Precision) -> None:
    global _teacher
    torch.set_num_threads(threads)
    _teacher = Teacher(folder, torch.device("cpu"), beam, precision)


def _translate_chunk(chunk: list[NumberedPair]) -> list[ChosenTranslation]:
    assert _teacher is not None
    return _teacher.choose(chunk)


def translate_chunks(
    teacher: Teacher, chunks: Sequence[list[NumberedPair]], processes: int
) -> Iterator[list[ChosenTranslation]]:
    """Yields each chunk when it is translated, in any order. Every worker process loads the teacher from its folder."""
    if processes == 1:
        yield from map(teacher.choose, chunks)
        return
    threads = max(1, torch.get_num_threads() // processes)
    arguments = (threads, teacher.folder, teacher.beam, teacher.precision)
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _start_process, arguments) as pool:
        try:
            for done in as_completed([pool.submit(_translate_chunk, chunk) for chunk in chunks]):
                yield done.result()
        except BrokenProcessPool:
            raise TrainingError("A process of this command has died, perhaps for lack of memory.") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
