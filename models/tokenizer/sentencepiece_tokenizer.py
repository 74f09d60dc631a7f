"""SentencePiece subwords, with deterministic or random segmentation: BPE-dropout (Provilkov et al. 2020, arXiv
1910.13267) or unigram sampling (Kudo 2018, arXiv 1804.10959). SentencePiece implements both, but since 0.2.3
its random numbers are reproducible within one process only, whatever the seed: a resumed run, and each process of a
distributed run, would see other segmentations."""

from __future__ import annotations

import itertools
import math
import random
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import sentencepiece

from models.tokenizer.base import LANGUAGE, Piece, SpecialTokens, Tokenizer, is_language, pieces_of_model

UNKNOWN_PENALTY = 10.0  # an unknown character scores this much less than the least likely piece, as in SentencePiece
MAX_CACHED = 200_000  # words, or merge decisions, kept in each cache; some 60 MB
NORMALIZED_WORDS = re.compile("▁[^▁]*|[^▁]+")  # of a normalised text


class MergeChoice:
    """A state of BPE-dropout: the parts of a word, the ranks of merging neighbours (-inf: no merge), and the index of
    the next merge. done, left_out: the cached state after doing or skipping this merge."""

    __slots__ = ("at", "done", "left_out", "parts", "ranks")

    def __init__(self, parts: list[str], ranks: list[float], at: int) -> None:
        self.parts, self.ranks, self.at = parts, ranks, at
        self.done: MergeChoice | tuple[str, ...] | None = None
        self.left_out: MergeChoice | tuple[str, ...] | None = None


class BpeDropout:
    """BPE-dropout: merges in order of score, leftmost first among equals, each skipped with probability `share`.
    Results are cached, because words recur."""

    def __init__(self, scores: Mapping[str, float], share: float) -> None:
        self.scores, self.share = scores, share
        self._whole: dict[str, tuple[tuple[str, ...], float]] = {}  # with every merge done, and the probability of that
        self._forks: dict[str, MergeChoice] = {}  # word -> its first state
        self._made = 0

    def cut(self, word: str, generator: random.Random) -> tuple[str, ...]:
        whole, reached = self._whole.get(word) or self._merged(word)
        drawn = generator.random()
        return whole if drawn < reached else self._chosen(word, drawn, generator)

    def _chosen(self, word: str, drawn: float, generator: random.Random) -> tuple[str, ...]:
        """drawn < (1 - share)^n: the first n merges are done, the next is skipped; then the generator decides."""
        found: MergeChoice | tuple[str, ...] = self._forks.get(word) or self._first(word)
        if isinstance(found, MergeChoice) and len(self._forks) < MAX_CACHED:
            self._forks[word] = found
        reached = kept = 1.0 - self.share
        while isinstance(found, MergeChoice) and drawn < reached:
            found, reached = found.done or self._kept(found, leave_out=False), reached * kept
        leave_out = True
        while isinstance(found, MergeChoice):
            found = (found.left_out if leave_out else found.done) or self._kept(found, leave_out)
            leave_out = isinstance(found, MergeChoice) and generator.random() < self.share
        return found

    def _kept(self, choice: MergeChoice, leave_out: bool) -> MergeChoice | tuple[str, ...]:
        after = self._after(choice, leave_out)
        if self._made < MAX_CACHED:
            self._made += 1
            if leave_out:
                choice.left_out = after
            else:
                choice.done = after
        return after

    def _after(self, choice: MergeChoice, leave_out: bool) -> MergeChoice | tuple[str, ...]:
        parts, ranks, at = choice.parts.copy(), choice.ranks.copy(), choice.at
        if leave_out:
            ranks[at] = -math.inf
        else:
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
            del ranks[at]
            for changed in range(max(at - 1, 0), min(at + 1, len(ranks))):
                ranks[changed] = self.scores.get(parts[changed] + parts[changed + 1], -math.inf)
        return self._next_choice(parts, ranks)

    def _merged(self, word: str) -> tuple[tuple[str, ...], float]:
        at, reached = self._first(word), 1.0
        while isinstance(at, MergeChoice):
            at, reached = self._after(at, False), reached * (1.0 - self.share)
        if len(self._whole) < MAX_CACHED:
            self._whole[word] = at, reached
        return at, reached

    def _first(self, word: str) -> MergeChoice | tuple[str, ...]:
        ranks = [self.scores.get(a + b, -math.inf) for a, b in itertools.pairwise(word)]
        return self._next_choice(list(word), ranks)

    def _next_choice(self, parts: list[str], ranks: list[float]) -> MergeChoice | tuple[str, ...]:
        """The state at the next merge; the parts themselves if no merge is left."""
        best = max(ranks, default=-math.inf)
        return MergeChoice(parts, ranks, ranks.index(best)) if best > -math.inf else tuple(parts)


StartChoices = tuple[list[float], list[int]]
"""Of a place in a word: where the piece that ends there may start, behind the cumulated probabilities of these."""


class UnigramSampler:
    """Unigram sampling: a segmentation is as likely as the product of its pieces' probabilities ** `alpha`."""

    def __init__(self, scores: Mapping[str, float], alpha: float) -> None:
        self.scores, self.alpha = scores, alpha
        self.longest = max(map(len, scores))
        self.unknown = min(scores.values()) - UNKNOWN_PENALTY
        self._ends: dict[str, list[StartChoices]] = {}

    def cut(self, word: str, generator: random.Random) -> tuple[str, ...]:
        ends = self._ends.get(word)
        if ends is None:
            ends = self._choices(word)
            if len(self._ends) < MAX_CACHED:
                self._ends[word] = ends
        parts, end = list[str](), len(word)
        while end:
            reached, starts = ends[end]
            start = starts[bisect_right(reached, generator.random())]
            parts.append(word[start:end])
            end = start
        return tuple(parts[::-1])

    def _choices(self, word: str) -> list[StartChoices]:
        total, choices = [0.0], list[StartChoices]([([], [])])
        for end in range(1, len(word) + 1):
            each = []
            for start in range(max(0, end - self.longest), end):
                score = self._score(word[start:end])
                if score is not None:
                    each.append((total[start] + self.alpha * score, start))
            most = max(weight for weight, _ in each)
            total.append(most + math.log(sum(math.exp(weight - most) for weight, _ in each)))
            reached = list(itertools.accumulate(math.exp(weight - total[-1]) for weight, _ in each))
            reached[-1] = 1.0  # despite rounding
            choices.append((reached, [start for _, start in each]))
        return choices

    def _score(self, piece: str) -> float | None:
        return self.scores.get(piece, self.unknown if len(piece) == 1 else None)


class SentencePieceTokenizer(Tokenizer):
    """A trained SentencePiece model (Kudo and Richardson 2018, arXiv 1808.06226).

    languages: the control symbols that select a target language (>>de<<) -> their ids. A text encodes to one only where
    it begins with it, as in OPUS-MT's models. symbols: user-defined pieces, which are never cut -> their ids."""

    kind = "sentencepiece"

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()
        self.special = SpecialTokens(*(i if i >= 0 else None for i in ids))
        self._specials, self.size = self.special.ids(), int(processor.get_piece_size())
        controls = (i for i in range(self.size) if processor.is_control(i))
        self.languages = {piece: i for i in controls if is_language(piece := processor.id_to_piece(i))}
        # user-defined symbols are never cut; no score of another piece is +0 (the first merge of BPE has -0)
        scores = processor.get_score(list(range(self.size)))
        zeros = (i for i, score in enumerate(scores) if score == 0 and math.copysign(1.0, score) > 0)
        self.symbols = {processor.id_to_piece(i): i for i in zeros if self._is_text(i)}
        self._words = NORMALIZED_WORDS
        if self.symbols:
            self._words = re.compile(f"{'|'.join(map(re.escape, self.symbols))}|{NORMALIZED_WORDS.pattern}")
        self._cutters: dict[tuple[str, float], tuple[BpeDropout | UnigramSampler, dict[str, int]]] = {}

    def pieces(self, text: str) -> list[Piece]:
        if self.languages and (begin := self._language(text)):
            first = Piece(self.languages[begin], begin, 0, len(begin))
            rest = pieces_of_model(self._processor, text[len(begin) :])
            return [first, *(Piece(p.id, p.piece, p.start + first.end, p.end + first.end) for p in rest)]
        return list(pieces_of_model(self._processor, text))

    def encode(self, text: str) -> list[int]:
        if self.languages and (begin := self._language(text)):
            return [self.languages[begin], *self._processor.encode(text[len(begin) :])]
        ids: list[int] = self._processor.encode(text)
        return ids

    def _language(self, text: str) -> str:
        """The language token at the start of a text, or ""."""
        begin = LANGUAGE.match(text)
        return begin.group() if begin and begin.group() in self.languages else ""

    def encode_all(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        begins = [self._language(text) for text in texts] if self.languages else [""] * len(texts)
        rest = [text[len(begin) :] for text, begin in zip(texts, begins, strict=True)]
        ids: list[list[int]] = self._processor.encode(rest, num_threads=threads)
        return [[self.languages[begin], *row] if begin else row for begin, row in zip(begins, ids, strict=True)]

    def sample(
        self, texts: Sequence[str], share: float, seed: int | random.Random, algorithm: str = "bpe"
    ) -> list[list[int]]:
        """Random segmentations, determined by these arguments alone in every process and on every machine. share:
        dropout of merges for bpe, alpha for unigram. seed: or the generator that has drawn for the texts before these.
        Requires pieces that do not cross spaces, as `training.data.tokenizer_training` trains them."""
        generator = seed if isinstance(seed, random.Random) else random.Random(seed)
        of, known = self._cutter(share, algorithm)
        unknown: int = self._processor.unk_id()
        drawn, begins = [], [self._language(text) for text in texts]
        rest = [text[len(begin) :] for text, begin in zip(texts, begins, strict=True)]
        for begin, text in zip(begins, self._processor.normalize(rest), strict=True):
            ids: list[int] = [self.languages[begin]] if begin else []
            for word in self._words.findall(text):
                if word in self.symbols:
                    ids.append(self.symbols[word])
                    continue
                ids += [known.get(piece, unknown) for piece in of.cut(word, generator)]
            if unknown in ids:  # a run of unknowns is one token, as in `encode`
                ids = [i for i, before in zip(ids, [None, *ids], strict=False) if i != unknown or before != unknown]
            drawn.append(ids)
        return drawn

    def _cutter(self, share: float, algorithm: str) -> tuple[BpeDropout | UnigramSampler, dict[str, int]]:
        """The segmenter, cached across epochs with its words, and the id of each piece."""
        if (algorithm, share) not in self._cutters:
            known = {self._processor.id_to_piece(i): i for i in range(self.size) if self._is_text(i)}
            cutter = UnigramSampler if algorithm == "unigram" else BpeDropout
            scores = {piece: self._processor.get_score(i) for piece, i in known.items()}
            self._cutters[algorithm, share] = cutter(scores, share), known
        return self._cutters[algorithm, share]

    def scores(self) -> list[float]:
        """The scores of all pieces with text."""
        return [float(self._processor.get_score(i)) for i in range(self.size) if self._is_text(i)]

    def _is_text(self, token: int) -> bool:
        of = self._processor
        return not (of.is_control(token) or of.is_unknown(token) or of.is_unused(token) or of.is_byte(token))

    def decode(self, ids: Iterable[int]) -> str:
        text: str = self._processor.decode([i for i in ids if i not in self._specials])
        return text

    def piece(self, token: int) -> str:
        return str(self._processor.id_to_piece(token))

    def write(self, path: Path) -> None:
        path.write_bytes(self.model)

    @classmethod
    def read(cls, path: Path) -> SentencePieceTokenizer:
        return cls(path.read_bytes())
