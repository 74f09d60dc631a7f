"""What a run writes while it runs: the progress bar, metrics.jsonl, samples and TensorBoard events."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tqdm import tqdm

from training.evaluation.samples import Sample, samples_markdown


class JsonLines:
    """Rows are appended as they come; a resumed run forgets those of updates that are about to happen again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, row: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def forget(self, again: Callable[[dict[str, Any]], bool]) -> None:
        """The rows that are about to come again; a line that a kill has torn goes as well."""
        if self.path.exists():
            lines = self.path.read_text(encoding="utf-8").split("\n")
            rows = [(line, _parse_row(line)) for line in lines]
            aside = self.path.with_name(f"{self.path.name}.new")  # a kill leaves the old lines or the new ones
            kept = [line for line, row in rows if row is not None and not again(row)]
            aside.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
            aside.replace(self.path)

    def rows(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").split("\n") if line]


def _parse_row(line: str) -> dict[str, Any] | None:
    """None for a line that is not whole."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


EVENTS_FOLDER = "events"
EVENT_TAGS = {
    "loss": "loss/training",
    "valid_loss": "loss/held_out",
    "valid_perplexity": "perplexity/held_out",
    "valid_bleu": "BLEU/held_out",
    "rate": "learning_rate",
    "tokens_per_second": "tokens_per_second",
}


def tensorboard_problems() -> Iterator[str]:
    if find_spec("tensorboardX") is None:
        yield "--tensorboard needs the package tensorboardX: pip install tensorboardX"


class TensorBoardEvents:
    """The rows of metrics.jsonl as scalars, and the samples as texts."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.writer = folder / EVENTS_FOLDER, None

    def forget_after(self, update: int) -> None:
        """TensorBoard hides what an earlier session has said of later updates."""
        self._open(purge_step=update + 1, filename_suffix=f".from-{update + 1}")

    def scalars(self, row: dict[str, Any]) -> None:
        writer = self.writer or self._open()
        for name, tag in EVENT_TAGS.items():
            if name in row:
                writer.add_scalar(tag, row[name], row["update"])

    def text(self, update: int, made: str) -> None:
        (self.writer or self._open()).add_text("samples", made, update)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()

    def _open(self, **options: Any) -> Any:
        from tensorboardX import SummaryWriter

        self.writer = SummaryWriter(str(self.folder), **options)
        return self.writer


METRICS_FILE, SAMPLES_FILE = "metrics.jsonl", "samples.jsonl"


class ProgressReport:
    """A bar with loss, tokens/s and time left on standard error, and one JSON line a log step in metrics.jsonl.

    Speed and time left are this session's: what was done before a resume took no time of it."""

    def __init__(self, folder: Path | None, title: str, *, quiet: bool = False, tensorboard: bool = False) -> None:
        self.folder = folder
        self.events = TensorBoardEvents(folder) if folder and tensorboard else None
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
            f"epoch {epoch + 1}, loss {loss:.3f}, {_tokens_per_second(self.total):,.0f} tokens/s{self.valid}",
            refresh=False,
        )
        self.bar.update(max(0.0, fraction - self.bar.n))

    def log(self, seconds: float) -> None:
        if not self.tokens:
            return
        loss, speed = self.loss / self.tokens, round(_tokens_per_second(self.here), 1)
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
        journal = JsonLines(self.folder / SAMPLES_FILE)
        journal.add({"update": update, "samples": [list(sample) for sample in samples]})
        (self.folder / "samples.md").write_text(samples_markdown(journal.rows()), encoding="utf-8")
        if self.events:
            self.events.text(update, samples_markdown([{"update": update, "samples": samples}]))
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
            for name in (METRICS_FILE, SAMPLES_FILE):
                JsonLines(self.folder / name).forget(again)
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
            JsonLines(self.folder / METRICS_FILE).add(row)
        if self.events:
            self.events.scalars(row)


def _tokens_per_second(count: list[Any]) -> float:
    """Tokens per second of training, validations left out."""
    return float(count[0] / max(count[1], 1e-9))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    return JsonLines(path).rows()
