"""The `translate` command: one line out for each line in, in order: as plain text, with scores, as n-best lists, or as
JSON."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from models.checkpoint import WEIGHTS, read_config
from models.decoding.options import DecodingOptions
from training.data.progress_bar import progress_bar
from training.errors import pluralize
from training.translation.line_input import LineChunk, LineInput, chunks_of
from training.translation.line_translator import LineTranslator, TranslatedLine
from training.translation.resumable_output import ResumableOutput
from training.translation.worker_pool import WorkerPool

MOST_CHUNK_LINES = 1000
LEAST_CHUNK_LINES = 64  # a batch: fewer lines would leave rows empty
CHUNKS_PER_PROCESS = 8  # at least, so that all processes end at about the same time
NOT_WRITTEN = frozenset({"logprobs", "top_logprobs", "streamed"})  # options that change what is told of a token alone
LISTED_LINES = 10  # numbers named in a note


OutputFormat = Literal["text", "scores", "n-best", "json"]


def plain_text(number: int, source: str, line: TranslatedLine) -> str:
    return line.candidates[0].text + "\n"


def with_score(number: int, source: str, line: TranslatedLine) -> str:
    """SCORE<TAB>TEXT."""
    best = line.candidates[0]
    return f"{best.score:.4f}\t{best.text}\n"


def n_best_list(number: int, source: str, line: TranslatedLine) -> str:
    """Moses' and Marian's lines: NUMBER ||| TEXT ||| F0= LOG-PROBABILITY ||| SCORE; numbers count from 0."""
    return "".join(
        f"{number} ||| {each.text} ||| F0= {each.log_probability:.4f} ||| {each.score:.4f}\n"
        for each in line.candidates
    )


def json_line(number: int, source: str, line: TranslatedLine) -> str:
    def known(value: float) -> float | None:
        return None if math.isnan(value) else round(value, 4)

    best, *others = line.candidates
    values: dict[str, object] = {"line": number + 1, "source": source, "text": best.text, "score": known(best.score)}
    values["log_probability"] = known(best.log_probability)
    if others:
        values["n_best"] = [{"text": each.text, "score": known(each.score)} for each in line.candidates]
    if line.parts > 1:
        values["parts"] = line.parts
    if line.unfinished:
        values["unfinished"] = True
    return json.dumps(values, ensure_ascii=False) + "\n"


FORMATS: dict[OutputFormat, Callable[[int, str, TranslatedLine], str]] = {
    "text": plain_text,
    "scores": with_score,
    "n-best": n_best_list,
    "json": json_line,
}


class WrittenChunk(NamedTuple):
    """data: the output of the chunk's lines. long, unfinished: numbers of lines, from 1: too long for the model, and so
    translated in parts; ended by the limit of new tokens."""

    chunk: LineChunk
    data: bytes
    long: list[int]
    unfinished: list[int]


@dataclass(frozen=True, slots=True)
class ChunkTranslation:
    """Translates and writes a chunk, in a process of the pool."""

    translator: LineTranslator
    options: DecodingOptions
    form: OutputFormat

    def __call__(self, chunk: LineChunk) -> WrittenChunk:
        write, (first, lines) = FORMATS[self.form], chunk
        translated = self.translator.translate(lines, self.options)
        rows = list(zip(range(first, first + len(lines)), lines, translated, strict=True))
        data = "".join(write(*row) for row in rows).encode()
        long = [number + 1 for number, _, line in rows if line.parts > 1]
        return WrittenChunk(chunk, data, long, [number + 1 for number, _, line in rows if line.unfinished])


def chunk_lines(count: int | None, processes: int) -> int:
    """Lines of a chunk, for an input of `count` lines, None: of unknown length."""
    if count is None:
        return MOST_CHUNK_LINES
    return max(LEAST_CHUNK_LINES, min(MOST_CHUNK_LINES, -(-count // (CHUNKS_PER_PROCESS * processes))))


def identity(translator: LineTranslator, options: DecodingOptions, form: str, size: int) -> dict[str, object]:
    """What determines an output, for `ResumableOutput`: the models, every option of decoding that is not one of
    `NOT_WRITTEN`, and the size of the chunks: in fp32 a batch's size changes the last bits."""
    config, reranker = translator.checkpoint.config, translator.reranker
    return {
        "model": digests(translator.folders),
        "precision": translator.precision,
        **{option.name: getattr(options, option.name) for option in fields(options) if option.name not in NOT_WRITTEN},
        "output format": form,
        "chunk size": size,
        "languages": f"{config.source_language} to {config.target_language}",
        **({} if reranker is None else {"reranked by": f"{digests(reranker.folders)}, weight {reranker.weight:g}"}),
    }


def digests(folders: Iterable[Path]) -> str:
    """The beginnings of the weights' checksums."""
    return " ".join(read_config(folder).files[WEIGHTS][:16] for folder in folders)


def translate_lines(
    translator: LineTranslator,
    source: LineInput,
    options: DecodingOptions,
    form: OutputFormat,
    *,
    processes: int,
    out: Path | None,
    stdout: BinaryIO,
    resume: bool,
    size: int,
) -> None:
    """Writes the translations to `out`, or to `stdout` as soon as they are there, and notes to standard error. size:
    lines of a chunk."""
    started = time.monotonic()
    if source.count is not None:
        processes = max(1, min(processes, -(-source.count // size)))
    with ExitStack() as stack:
        # the pool comes first: a forked process would keep the lock of the output's file
        pool = stack.enter_context(WorkerPool(ChunkTranslation(translator, options, form), processes))
        output, done, wake = None, 0, None
        if out is not None:
            output = stack.enter_context(ResumableOutput(out, identity(translator, options, form, size), resume=resume))
            done = output.done
            chunks: Iterator[LineChunk | None] = chunks_of(output.skipped(source.lines()), size, done)
        elif source.wake is not None:
            chunks, wake = source.prompt_chunks(size), source.wake
        else:
            chunks = chunks_of(source.lines(), size)
        notes: dict[str, list[int]] = output.notes if output else {}
        translated, shown = done, out is not None or not stdout.isatty()
        bar = stack.enter_context(progress_bar("translating", source.count, "lines", done=done, shown=shown))
        for chunk, data, long, unfinished in pool.ordered(chunks, wake):
            add_note(notes, "long", long)
            add_note(notes, "unfinished", unfinished)
            if output is None:
                stdout.write(data)
                stdout.flush()
            else:
                output.write(data, chunk.lines)
            translated += len(chunk.lines)
            bar.update(len(chunk.lines))
        if output is not None:
            output.finish()
    seconds = time.monotonic() - started
    speed = f"{shown_rate((translated - done) / seconds)} lines/s"
    used = f"{translator.backend}, {processes} process{'es' * (processes != 1)}"
    say(f"{pluralize(translated, 'line')} in {seconds:.1f} s, {speed}, {used}")
    report_notes(translator, notes, options)


def shown_rate(rate: float) -> str:
    """A rate for people: whole numbers from 10 on, two significant digits below: "1,234", "10", "9.6", "0.18", "0"."""
    if rate >= 9.95:
        return f"{rate:,.0f}"
    return f"{rate:.{1 - math.floor(math.log10(rate))}f}" if rate > 0 else "0"


def add_note(notes: dict[str, list[int]], name: str, numbers: list[int]) -> None:
    """Counts line numbers; of many, only the first ones are kept: [count, number, number, …]."""
    if numbers:
        kept = notes.setdefault(name, [0])
        kept += numbers[: max(0, LISTED_LINES + 1 - len(kept))]
        kept[0] += len(numbers)


def report_notes(translator: LineTranslator, notes: dict[str, list[int]], options: DecodingOptions) -> None:
    config = translator.checkpoint.config
    if "long" in notes:
        which = _lines(notes["long"], "was", "were")
        say(
            f"note: {which} longer than the {config.max_source_tokens:,} tokens that the model takes, and translated"
            " sentence by sentence"
        )
    if "unfinished" in notes:
        which = _lines(notes["unfinished"], "has", "have")
        limit = (
            f"{options.max_new_tokens:,} tokens"
            if options.max_new_tokens
            else f"{config.max_new_tokens:,} tokens, or twice the source's and 20"
        )
        say(f"note: {which} a translation that was ended by the limit of {limit}; see --max-new-tokens")


def _lines(counted: list[int], singular: str, plural: str) -> str:
    count, *numbers = counted
    if count == 1:
        return f"line {numbers[0]:,} {singular}"
    listed = ", ".join(f"{number:,}" for number in numbers)
    return f"{count:,} lines ({listed}{', …' if count > len(numbers) else ''}) {plural}"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
