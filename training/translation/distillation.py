"""A teacher's translations of pairs or of monolingual text, to train a student on, alone or beside the pairs.

Sequence-level interpolation (Kim and Rush 2016, "Sequence-Level Knowledge Distillation", section 3.3): selects the
hypothesis in the teacher's beam that is closest to the reference. These vary less than human translations, so that a
greedy student comes close to its teacher's beam search. Text without references keeps the best hypothesis (section
3.2). Pairs have the codes of their languages for keys, so that a student of the opposite direction reads them as
back-translated ones (Sennrich et al. 2016, arXiv 1511.06709)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

import sacrebleu

from models.decoding.options import DecodingOptions
from training.data.progress_bar import progress_bar
from training.data.sentence_pairs import Pairs
from training.errors import TrainingError
from training.evaluation.model_outputs import hypotheses
from training.evaluation.text_metrics import tokenizer_for
from training.translation.file_translation import chunk_lines, identity
from training.translation.line_input import LineChunk, LineInput, chunks_of
from training.translation.line_translator import LineTranslator
from training.translation.resumable_output import ResumableOutput
from training.translation.worker_pool import WorkerPool

CHUNK_PAIRS = 500  # between two updates of the progress bar
NumberedPair = tuple[int, str, str]  # index, source, reference
ChosenTranslation = tuple[int, str, str]  # index, the beam's first hypothesis, and the closest to the reference


@dataclass(frozen=True, slots=True)
class Teacher:
    """A teacher with `beam` hypotheses per source; called with a chunk in a process of the pool."""

    translator: LineTranslator
    beam: int

    @property
    def tokenize(self) -> str:
        return tokenizer_for(self.translator.checkpoint.config.target_language)

    def hypotheses(self, sources: Sequence[str]) -> list[list[str]]:
        return hypotheses(self.translator.checkpoint, self.translator, sources, beam=self.beam, n_best=self.beam)

    def nearest(self, hypotheses: Sequence[str], reference: str) -> str:
        """The hypothesis with the best sentence BLEU; ties go to the most probable."""
        # effective order: a three-word sentence has no 4-grams and would otherwise score 0
        metric = sacrebleu.BLEU(effective_order=True, tokenize=self.tokenize)
        return max(hypotheses, key=lambda text: metric.sentence_score(text, [reference]).score)

    def __call__(self, pairs: Sequence[NumberedPair]) -> list[ChosenTranslation]:
        beams = self.hypotheses([source for _, source, _ in pairs])
        return [
            (index, beam[0], self.nearest(beam, reference))
            for (index, _, reference), beam in zip(pairs, beams, strict=True)
        ]


def languages_of(translator: LineTranslator) -> tuple[str, str]:
    """The keys of the pairs: language codes, so that a student of either direction reads a file correctly."""
    config = translator.checkpoint.config
    return config.source_language or "source", config.target_language or "target"


def distil_pairs(teacher: Teacher, pairs: Pairs, out: Path, *, processes: int, resume: bool) -> Mapping[str, object]:
    """Writes each source with its chosen translation, in the order of the corpus; returns their number and their BLEU
    against the references. Sources longer than the teacher is served with are left out."""
    translator, started = teacher.translator, time.monotonic()
    fitting = [i for i, source in enumerate(pairs.sources) if translator.fits(source)]
    if not fitting:
        raise TrainingError(f"{pairs.origin} has no source that the teacher can read.")

    # chunks of similar lengths, to reduce padding; the longest first, so that no process finishes late
    order = sorted(fitting, key=lambda i: len(pairs.sources[i]), reverse=True)
    options = DecodingOptions(beam_size=teacher.beam, n_best=teacher.beam)
    whose = identity(translator, options, "pairs", CHUNK_PAIRS)
    texts = (f"{pairs.sources[i]}\t{pairs.targets[i]}" for i in order)
    with (
        WorkerPool(teacher, processes) as pool,
        ResumableOutput(out, whose, resume=resume, unit="pair", compressed=False) as output,
        progress_bar("translating", len(order), done=output.done) as progress,
    ):
        output.skipped(texts)
        rest = [(i, pairs.sources[i], pairs.targets[i]) for i in order[output.done :]]
        numbered = (rest[start : start + CHUNK_PAIRS] for start in range(0, len(rest), CHUNK_PAIRS))
        for chunk in pool.ordered(numbered):
            rows = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in chunk)
            output.write(rows.encode(), [f"{pairs.sources[i]}\t{pairs.targets[i]}" for i, *_ in chunk])
            progress.update(len(chunk))
        chosen: list[ChosenTranslation] = sorted(tuple(json.loads(line)) for line in output.written_lines())
        translations = [row for row in chosen if row[2].strip()]  # white space teaches nothing
        languages = languages_of(translator)

        def write(file: TextIO) -> None:
            for index, _, text in translations:
                row = dict(zip(languages, (pairs.sources[index], text), strict=True))
                file.write(json.dumps(row, ensure_ascii=False) + "\n")

        output.finish_with(write)
    seconds = round(time.monotonic() - started, 1)
    references = [[pairs.targets[index] for index, _, _ in translations]]
    metric, bleu = sacrebleu.BLEU(tokenize=teacher.tokenize, force=True), {"bleu_of_first": 0.0, "bleu": 0.0}
    for place, name in enumerate(bleu, start=1):
        outputs = [str(chosen[place]) for chosen in translations]
        bleu[name] = round(metric.corpus_score(outputs, references).score, 2) if outputs else 0.0
    signature = str(metric.get_signature()) if translations else ""
    too_long = len(pairs) - len(fitting)
    return {"pairs": len(translations), **bleu, "signature": signature, "too_long": too_long, "seconds": seconds}


class WrittenPairs(NamedTuple):
    """data: JSON lines. counts: pairs, and lines left out by reason."""

    chunk: LineChunk
    data: bytes
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TextTeacher:
    """Makes pairs of a chunk of monolingual lines, in a process of the pool."""

    translator: LineTranslator
    options: DecodingOptions

    def __call__(self, chunk: LineChunk) -> WrittenPairs:
        counts = {"pairs": 0, "empty": 0, "too_long": 0, "unfinished": 0}
        lines = chunk.lines
        fitting = [line if self.translator.fits(line) else "" for line in lines]
        rows, languages = list[str](), languages_of(self.translator)
        translated = self.translator.translate(fitting, self.options)
        for line, fits, output in zip(lines, fitting, translated, strict=True):
            text = output.candidates[0].text.strip()
            reason = "too_long" if fits != line else "unfinished" if output.unfinished else "" if text else "empty"
            counts[reason or "pairs"] += 1
            if not reason:
                pair = dict(zip(languages, (line.strip(), text), strict=True))
                rows.append(json.dumps(pair, ensure_ascii=False) + "\n")
        return WrittenPairs(chunk, "".join(rows).encode(), counts)


def translate_text(
    teacher: TextTeacher, files: LineInput, out: Path, *, processes: int, resume: bool, size: int | None = None
) -> Mapping[str, object]:
    """Writes a pair for each line, in order; returns the number of pairs, and of lines left out: empty ones, those
    longer than the teacher is served with, those whose translation did not end. size: lines of a chunk; None: a size
    that suits the text. TrainingError for a text without a line."""
    started, size = time.monotonic(), size or chunk_lines(files.count, processes)
    whose = identity(teacher.translator, teacher.options, "text", size)
    with (
        WorkerPool(teacher, processes) as pool,
        ResumableOutput(out, whose, resume=resume) as output,
        progress_bar("translating", files.count, "lines", done=output.done) as progress,
    ):
        counts = {name: output.notes.setdefault(name, [0]) for name in ("pairs", "empty", "too_long", "unfinished")}
        chunks = chunks_of(output.skipped(files.lines()), size, output.done)
        for chunk, data, counted in pool.ordered(chunks):
            for name, count in counted.items():
                counts[name][0] += count
            output.write(data, chunk.lines)
            progress.update(len(chunk.lines))
        if not any(count for (count,) in counts.values()):
            raise TrainingError(f"The text has no line to translate: {out} is not written.")
        output.finish()
    return {**{name: count for name, (count,) in counts.items()}, "seconds": round(time.monotonic() - started, 1)}
