"""Translates lines of text with a checkpoint, or with an ensemble of several, through the decoder of the server."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from models.backends.select import Network, Selection, fastest, select
from models.checkpoint import new_token_limit
from models.decoding.options import DecodingOptions, Hypothesis
from models.interface import Decodable, Precision, Prompt
from models.networks.transformer import Transformer
from training.config.corpus_languages import base_language
from training.errors import TrainingError
from training.evaluation.ensemble import load_ensemble
from training.evaluation.model_outputs import (
    GPU_SLOTS,
    AnyLanguages,
    decode_in_memory,
    default_precision,
    load_translator,
    token_rules,
)
from training.evaluation.reranking import Reranker

GREEDY_ROWS, BEAM_ROWS = 128, 64  # of a batch on a CPU: more no longer fit the cache of a core
WINDOW = 10_000  # characters: sentencex takes quadratic time where a quote is never closed
UNUSUAL_SPACE = re.compile(r"[^\S ]")  # sentencex fails on spaces of several bytes
WITHOUT_SPACES = {"zh", "ja", "th", "lo", "km", "my", "yue", "wuu"}  # languages written without spaces


class Candidate(NamedTuple):
    """log_probability: natural, end token included. score: log_probability / length**length_penalty, or a reranker's
    sum. Both are NaN without scores."""

    text: str
    log_probability: float
    score: float


class TranslatedLine(NamedTuple):
    """candidates: best first, at least one. parts: translated one by one and joined; 0 of an empty line. unfinished:
    whether the best candidate was ended by the limit of new tokens."""

    candidates: tuple[Candidate, ...]
    parts: int
    unfinished: bool


EMPTY_LINE = TranslatedLine((Candidate("", 0.0, 0.0),), 0, False)


class LineTranslator:
    """A translator, ready to decode in a precision; auto: the fastest of the device, as the server chooses it; None:
    fp32, on a GPU bf16. Several folders are an ensemble.
    languages: the pair of a multilingual model. reranking: folders of translators of the other direction and their
    weight (`Reranker`), which choose among all hypotheses of a beam. TrainingError for folders that cannot translate,
    or not this pair."""

    def __init__(
        self,
        folders: Sequence[Path],
        device: torch.device,
        precision: Precision | Literal["auto"] | None = "auto",
        languages: AnyLanguages | None = None,
        reranking: tuple[Sequence[Path], float] | None = None,
    ) -> None:
        self.folders, self.device, self.languages = tuple(folders), device, languages
        self._most_rows = sys.maxsize  # fewer, once memory has run out
        precision = precision or default_precision(device)
        self.checkpoint, network = (
            load_ensemble(folders, device, languages=languages)
            if len(folders) > 1
            else load_translator(folders[0], device, languages)
        )
        if self.checkpoint.config.kind != "translator":
            raise TrainingError(f"{folders[0]} is a lyricist, and only a translator can translate.")
        self.reranker: Reranker | None = None
        if reranking is not None:
            config, (source, target) = self.checkpoint.config, languages or (None, None)
            others, weight = reranking
            known = (config.source_language or source, config.target_language or target)
            self.reranker = Reranker(others, device, known, weight)
        try:
            if precision == "auto":
                precision, selection = _fastest(network, device)
            else:
                selection = select(network, precision)
        except ValueError as error:
            raise TrainingError(f"--precision {precision} cannot be had: {error}.") from error
        self.precision: Precision = precision
        self.backend, self._decodable = selection.backend, selection.decodable

    def __reduce__(self) -> tuple[Any, ...]:
        """A process that is not forked loads the folders itself."""
        reranking = None if self.reranker is None else (self.reranker.folders, self.reranker.weight)
        return LineTranslator, (self.folders, self.device, self.precision, self.languages, reranking)

    def decodable(self, precision: Precision = "fp32") -> Decodable:
        """The network, with weights converted once (`models.backends.select.SelfDecoding`)."""
        return self._decodable

    def fits(self, text: str) -> bool:
        """Whether the model is served with sources of this length; it is poorly trained on longer ones."""
        return len(self.checkpoint.source_ids(text)) <= self.checkpoint.config.max_source_tokens

    def translate(self, lines: Sequence[str], options: DecodingOptions) -> list[TranslatedLine]:
        """options.max_new_tokens: None for the server's limit."""
        config = self.checkpoint.config
        sources: list[str] = []
        prompts: list[Prompt] = []
        places: list[list[int]] = []  # of each line, in `sources`
        known: dict[str, list[int]] = {}
        for line in lines:
            if line in known:
                places.append(known[line])
                continue
            known[line] = own = list[int]()
            places.append(own)
            for text, ids in self._parts(line) if line.strip() else ():
                own.append(len(sources))
                sources.append(text)
                prompts.append(Prompt(ids, tuple(config.target_prefix)))
        limits = [options.max_new_tokens or new_token_limit(len(p.source), config.max_new_tokens) for p in prompts]
        n_best = options.n_best if self.reranker is None else options.beam
        each = [replace(options, max_new_tokens=limit, streamed=False, n_best=n_best) for limit in limits]
        rows = self._rows(options)
        beams, fitting = decode_in_memory(
            self, token_rules(config), prompts, each, slots=rows, precision=self.precision
        )
        if fitting < rows:
            self._most_rows = fitting
        if self.reranker is not None:
            beams = self.reranker(self.checkpoint, sources, beams)
        return [self._joined([beams[i] for i in own], options) if own else EMPTY_LINE for own in places]

    def _rows(self, options: DecodingOptions) -> int:
        own = GPU_SLOTS if self.device.type != "cpu" else GREEDY_ROWS if options.beam == 1 else BEAM_ROWS
        return max(min(own, self._most_rows), options.beam)

    def _parts(self, line: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The line, or the parts that fit, with their token ids."""
        ids = self.checkpoint.source_ids(line)
        if len(ids) <= self.checkpoint.config.max_source_tokens:
            yield line, ids
            return
        for part in parts_that_fit(line, self.checkpoint.config.source_language or "en", self.fits):
            yield part, self.checkpoint.source_ids(part)

    def _joined(self, beams: Sequence[list[Hypothesis]], options: DecodingOptions) -> TranslatedLine:
        """The hypotheses of a line's parts, joined rank by rank; where a part has fewer, its last one stands in."""
        space = white_space_between(self.checkpoint.config.target_language) if len(beams) > 1 else ""
        candidates = []
        for rank in range(min(options.n_best, max(map(len, beams)))):
            parts = [beam[min(rank, len(beam) - 1)] for beam in beams]
            text = space.join(self.checkpoint.decode(part.tokens) for part in parts)
            log_probability = sum(part.log_probability for part in parts)
            lengths = [len(part.tokens) + part.finished for part in parts]
            score = parts[0].score
            if len(parts) > 1 and self.reranker is not None:  # a mean over the tokens, as the score of one part is
                scores = [part.score * length for part, length in zip(parts, lengths, strict=True)]
                score = sum(scores) / max(sum(lengths), 1)
            elif len(parts) > 1:
                score = log_probability / max(sum(lengths), 1) ** options.length_exponent
            candidates.append(Candidate(_one_line(text), log_probability, score))
        unfinished = any(not beam[0].finished for beam in beams)
        return TranslatedLine(tuple(candidates), len(beams), unfinished)


def _fastest(network: Network, device: torch.device) -> tuple[Precision, Selection]:
    """The server's choice. Where our kernels compute int8, it is known and not measured, which would take a second."""
    if device.type == "cpu" and isinstance(network, Transformer):
        with contextlib.suppress(ValueError):
            selection = select(network, "int8")
            if selection.native:
                return "int8", selection
    selection, times = fastest(network, device)
    return next(iter(times)), selection


def parts_that_fit(line: str, language: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """Splits a line that is longer than the model takes into sentences, and a sentence that is too long itself into
    parts of similar length. Yields parts that are not empty and that `fits` accepts, or single characters."""
    import sentencex

    spaced = UNUSUAL_SPACE.sub(" ", line)
    for window in _halved(spaced, lambda text: len(text) <= WINDOW):
        for sentence in sentencex.segment(base_language(language), window):
            if sentence.strip():
                yield from _halved(sentence.strip(), fits)


def _halved(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """Halves a text, at the space nearest to the middle if there is one, until every part fits."""
    if len(text) <= 1 or fits(text):
        yield text
        return
    middle = len(text) // 2
    before, behind = text.rfind(" ", 1, middle + 1), text.find(" ", middle, len(text) - 1)
    cuts = [cut for cut in (before, behind) if cut > 0]
    cut = min(cuts, key=lambda place: abs(place - middle)) if cuts else middle
    for part in (text[:cut].strip(), text[cut:].strip()):
        if part:
            yield from _halved(part, fits)


def white_space_between(language: str | None) -> str:
    """What joins translated parts in this language."""
    return "" if base_language(language or "") in WITHOUT_SPACES else " "


def _one_line(text: str) -> str:
    """A vocabulary may hold white space other than the space; in a file it would shift lines and columns."""
    return text if text.isprintable() else text.translate(ONE_LINE)


ONE_LINE = {ord(character): " " for character in "\n\r\t\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
