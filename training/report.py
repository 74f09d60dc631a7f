"""What a run says while it runs: a progress bar, metrics.jsonl, samples and TensorBoard events."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from training.events import Events
from training.journal import Journal
from training.samples import Sample, readable

METRICS, SAMPLES = "metrics.jsonl", "samples.jsonl"


class Report:
    """A bar with loss, tokens/s and time left on standard error, and one JSON line a log step in metrics.jsonl.

    Speed and time left are this session's: what was done before a resume took no time of it."""

    def __init__(self, folder: Path | None, title: str, *, quiet: bool = False, tensorboard: bool = False) -> None:
        self.folder = folder
        self.events = Events(folder) if folder and tensorboard else None
        terminal = sys.stderr.isatty()
        self.bar = tqdm(
            total=1.0,
            desc=title,
            disable=quiet,
            mininterval=0.3 if terminal else 15.0,  # a log file is no screen
            miniters=0,  # by time alone: by itself it waits for another step as large as a resume's first
            smoothing=0,  # validations are part of the time that is left
            bar_format="{desc} {percentage:3.0f}% |{bar:20}| {elapsed}, {remaining} left{postfix}",
            ascii=not terminal,
        )
        self.tokens = 0  # since the last line
        self.loss = 0.0
        self.here = [0, 0.0]  # tokens of this session since the last line, and the seconds that they took
        self.total = [0, 0.0]
        self.mark: float | None = None
        self.started = time.monotonic()
        self.last: dict[str, Any] = {}
        self.valid = ""

    def step(self, update: int, epoch: int, loss: float, tokens: int, rate: float, fraction: float) -> None:
        """fraction: how much of the run was over before this update."""
        if self.mark is None:
            self.mark = self.started
            self.bar.initial = self.bar.n = fraction  # a resumed run has not done the first part just now
        now = time.monotonic()
        for count in (self.here, self.total):
            count[0] += tokens
            count[1] += now - self.mark
        self.mark = now
        self.tokens += tokens
        self.loss += loss * tokens
        self.last = {"update": update, "epoch": epoch, "rate": rate}
        self.bar.set_postfix_str(
            f"epoch {epoch + 1}, loss {loss:.3f}, {_speed(self.total):,.0f} tokens/s{self.valid}", refresh=False
        )
        self.bar.update(max(0.0, fraction - self.bar.n))

    def log(self, seconds: float) -> None:
        if not self.tokens:
            return
        loss, speed = self.loss / self.tokens, round(_speed(self.here), 1)
        self._write({**self.last, "loss": loss, "tokens_per_second": speed, "seconds": round(seconds, 2)})
        self.tokens, self.loss, self.here = 0, 0.0, [0, 0.0]

    def validation(self, update: int, loss: float, seconds: float, bleu: float | None = None) -> None:
        self.log(seconds)
        perplexity = math.exp(min(loss, 700.0))
        row = {"update": update, "valid_loss": loss, "valid_perplexity": perplexity, "seconds": round(seconds, 2)}
        self._write(row if bleu is None else {**row, "valid_bleu": bleu})
        self.valid = f", held-out perplexity {perplexity:.2f}" + ("" if bleu is None else f", BLEU {bleu:.2f}")
        self.mark = time.monotonic()  # a validation is no time spent on training's tokens

    def samples(self, update: int, samples: Sequence[Sample]) -> None:
        """Source, reference and what the network made, of some held-out sentences."""
        if self.folder is None or not samples:
            return
        journal = Journal(self.folder / SAMPLES)
        journal.add({"update": update, "samples": [list(sample) for sample in samples]})
        (self.folder / "samples.md").write_text(readable(journal.rows()), encoding="utf-8")
        if self.events:
            self.events.text(update, readable([{"update": update, "samples": samples}]))
        self.mark = time.monotonic()

    def note(self, text: str) -> None:
        """A sentence for who watches, above the bar."""
        if not self.bar.disable:
            self.bar.write(text, file=sys.stderr)

    def resumed(
        self, update: int, loss: float, tokens: int, last: dict[str, Any] | None = None, validated: int | None = None
    ) -> None:
        """Forget what is said of that which is about to happen again: updates after the snapshot, and at its update
        what it does not know of. loss and tokens: the sums since the last line, as they were; last: what the next line
        says beside them, should no step come before it; validated: the last update that was. The last two are None
        where an earlier version has saved."""
        self.loss, self.tokens, self.last = loss, tokens, dict(last or {"update": update})
        self.started = time.monotonic()

        def again(row: dict[str, Any]) -> bool:
            known = validated is None or (tokens == 0 if "loss" in row else validated == update)
            return bool(row["update"] > update or (row["update"] == update and not known))

        if self.folder:
            for name in (METRICS, SAMPLES):
                Journal(self.folder / name).forget(again)
        if self.events:
            self.events.forget_after(update)

    def finished(self) -> None:
        """The run has come to its end, by whatever limit."""
        self.bar.update(max(0.0, 1.0 - self.bar.n))

    def close(self) -> None:
        self.bar.close()
        if self.events:
            self.events.close()

    def _write(self, row: dict[str, Any]) -> None:
        if self.folder:
            Journal(self.folder / METRICS).add(row)
        if self.events:
            self.events.scalars(row)


def _speed(count: list[Any]) -> float:
    """Tokens per second of training, validations left out."""
    return float(count[0] / max(count[1], 1e-9))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    return Journal(path).rows()
