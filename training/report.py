"""What a run says while it runs and leaves behind: a progress bar, metrics.jsonl, curves.png, the model card."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm


class Report:
    """A bar with loss, tokens/s and time left on standard error, and one JSON line a log step in metrics.jsonl."""

    def __init__(self, folder: Path | None, title: str, *, quiet: bool = False) -> None:
        self.path = folder / "metrics.jsonl" if folder else None
        terminal = sys.stderr.isatty()
        self.bar = tqdm(
            total=1.0,
            desc=title,
            disable=quiet,
            mininterval=0.3 if terminal else 15.0,  # a log file is no screen
            bar_format="{desc} {percentage:3.0f}% |{bar:20}| {elapsed}, {remaining} left{postfix}",
            ascii=not terminal,
        )
        self.tokens = self.total_tokens = 0
        self.loss = 0.0
        self.since = self.started = time.monotonic()
        self.last: dict[str, Any] = {}
        self.valid = ""

    def step(self, update: int, epoch: int, loss: float, tokens: int, rate: float, fraction: float) -> None:
        self.tokens += tokens
        self.total_tokens += tokens
        self.loss += loss * tokens
        self.last = {"update": update, "epoch": epoch, "rate": rate}
        speed = self.total_tokens / max(time.monotonic() - self.started, 1e-9)
        self.bar.set_postfix_str(
            f"epoch {epoch + 1}, loss {loss:.3f}, {speed:,.0f} tokens/s{self.valid}", refresh=False
        )
        self.bar.update(max(0.0, fraction - self.bar.n))

    def log(self, seconds: float) -> None:
        if not self.tokens:
            return
        now = time.monotonic()
        speed = self.tokens / max(now - self.since, 1e-9)
        loss = self.loss / self.tokens
        self._write({**self.last, "loss": loss, "tokens_per_second": round(speed, 1), "seconds": round(seconds, 2)})
        self.tokens, self.loss, self.since = 0, 0.0, now

    def validation(self, update: int, loss: float, seconds: float, bleu: float | None = None) -> None:
        self.log(seconds)
        perplexity = math.exp(min(loss, 700.0))
        row = {"update": update, "valid_loss": loss, "valid_perplexity": perplexity, "seconds": round(seconds, 2)}
        self._write(row if bleu is None else {**row, "valid_bleu": bleu})
        self.valid = f", held-out perplexity {perplexity:.2f}" + ("" if bleu is None else f", BLEU {bleu:.2f}")

    def samples(self, update: int, samples: Sequence[tuple[str, str, str]]) -> None:
        """Source, reference and translation of some held-out sentences."""
        if samples:
            self._write({"update": update, "samples": samples})

    def note(self, text: str) -> None:
        """A sentence for who watches, above the bar."""
        if not self.bar.disable:
            self.bar.write(text, file=sys.stderr)

    def resumed(self, update: int, loss: float, tokens: int) -> None:
        """Forget what the log says after the snapshot: those updates are about to happen again. loss and tokens:
        the sums since the last line, as they were."""
        self.loss, self.tokens = loss, tokens
        if self.path and self.path.exists():
            lines = self.path.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if line.endswith("}") and json.loads(line)["update"] <= update]
            self.path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def close(self) -> None:
        self.bar.close()

    def _write(self, row: dict[str, Any]) -> None:
        if self.path:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def draw_curves(metrics: list[dict[str, Any]], path: Path) -> None:
    """Training and held-out loss over updates, in nats per token."""
    from matplotlib.figure import Figure  # a second to import, and only needed here

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for key, label in (("loss", "training"), ("valid_loss", "held out")):
        rows = [row for row in metrics if key in row]
        if rows:
            axes.plot([row["update"] for row in rows], [row[key] for row in rows], label=label)
    axes.set_xlabel("update")
    axes.set_ylabel("loss (nats per token)")
    if axes.lines:
        axes.legend()
    figure.savefig(path, dpi=100, metadata={"Software": None})
