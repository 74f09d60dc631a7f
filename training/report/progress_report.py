"""The report of a training: progress bar, metrics.jsonl, curves.png, samples."""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.data.progress_bar import ProgressBar
from training.errors import pluralize
from training.progress import Sample, Validation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRICS_FILE, SAMPLES_FILE = "metrics.jsonl", "samples.jsonl"
RUNNING_MEAN_UPDATES = 50  # of the loss on the bar
FEW_SENTENCES = 500  # below, a BLEU is shown with their number
REPETITION = re.compile(r"(.{1,60}?)\1{3,}", re.DOTALL)
MIN_SHORTENED_CHARACTERS = 40  # of a repetition, to be shortened

Row = dict[str, Any]  # one line of a JSON Lines file, with its update


def append_row(path: Path, row: Row) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line] if path.exists() else []


def remove_rows(path: Path, unwanted: Callable[[Row], bool]) -> None:
    """Removes the rows for which `unwanted` is true, and a torn last line. Atomic."""
    if not path.exists():
        return
    kept = ""
    for line in path.read_text("utf-8").split("\n"):
        with contextlib.suppress(ValueError):  # a torn line
            row = json.loads(line)
            if isinstance(row, dict) and not unwanted(row):
                kept += f"{line}\n"
    aside = path.with_name(f"{path.name}.new")
    aside.write_text(kept, encoding="utf-8")
    aside.replace(path)


def samples_markdown(rows: Sequence[Row]) -> str:
    """samples.md: each source with its reference and the network's text at each validation."""
    texts: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in rows:
        for source, reference, text in row["samples"]:
            texts.setdefault((source, reference), []).append((f"{row['update']:,} | {row.get('epoch', '')}", text))
    parts = ["# Samples\n\nWhat the network made of these texts while it learnt.\n"]
    for (source, reference), versions in texts.items():
        wanted = f"Reference: {escape_markdown(reference)}\n\n" if reference else ""
        table = "".join(f"| {when} | {escape_markdown(shorten_repetition(text))} |\n" for when, text in versions)
        parts.append(f"## {escape_markdown(source)}\n\n{wanted}| update | epoch | text |\n|---:|---:|---|\n{table}")
    return "\n".join(parts)


def shorten_repetition(text: str) -> str:
    """Shortens a repeated phrase to two copies and a count: a barely trained network repeats until the length limit."""

    def shortened(match: re.Match[str]) -> str:
        repetition, phrase = match[0], match[1]
        if len(repetition) < MIN_SHORTENED_CHARACTERS:
            return repetition
        space = "" if match.string[match.end() :][:1] in ("", " ") else " "
        return f"{(phrase * 2).rstrip()} … ({len(repetition) // len(phrase)} times){space}"

    return REPETITION.sub(shortened, text).rstrip(" ")


def escape_markdown(text: str) -> str:
    """Escapes text to one line of Markdown."""
    for mark in "\\`*_|<>#[]":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", "<br>") or "(nothing)"


PANELS = (
    (
        "loss (nats per token)",
        (
            ("loss", "training, with dropout and any label smoothing", "C0"),
            ("valid_loss", "held out, without", "C1"),
        ),
    ),
    ("BLEU, held out", (("valid_bleu", "greedy", "C2"),)),
    ("learning rate", (("rate", "", "C7"),)),
)


def draw_curves(metrics: Sequence[Row], path: Path) -> None:
    """Draws one panel of curves.png for each measured entry of `PANELS`, stacked."""
    from matplotlib.figure import Figure  # takes a second to import

    measured = {name for row in metrics for name in row}
    panels = [panel for panel in PANELS if any(name in measured for name, _, _ in panel[1])] or list(PANELS[:1])
    heights = [2.0 if index == 0 else 1.0 for index in range(len(panels))]
    figure = Figure(figsize=(8, 1.6 + 1.5 * sum(heights)), layout="constrained")
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
    for axes, (title, curves) in zip(grid[:, 0], panels, strict=True):
        for name, label, colour in curves:
            _draw_curve(axes, [row for row in metrics if row.get(name) is not None], name, label, colour)
        axes.set_ylabel(title)
        for row in metrics:
            if "event" in row:
                _mark_event(axes, row, labelled=axes is grid[0, 0])
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[1]:
            axes.legend()
    grid[-1, 0].set_xlabel("update")
    figure.align_ylabels()
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _draw_curve(axes: Axes, rows: Sequence[Row], name: str, label: str, colour: str) -> None:
    """Draws a curve; a held-out curve has a marker per validation and a label at its best."""
    if not rows:
        return
    held_out = name.startswith("valid_")
    updates, values = [row["update"] for row in rows], [row[name] for row in rows]
    if held_out:
        best = (max if name == "valid_bleu" else min)(range(len(rows)), key=values.__getitem__)
        label = f"{label}, best {values[best]:.4g} at update {updates[best]:,}"
    axes.plot(updates, values, label=label or None, color=colour, marker="." if held_out or len(rows) < 3 else None)


def _mark_event(axes: Axes, row: Row, *, labelled: bool) -> None:
    """A vertical line at the end of a run, or where a cool-down goes back to the best weights."""
    text, style = f"end, update {row['update']:,}", ":"
    if row["event"] == "cool-down":
        text, style = f"cool-down, from the weights of update {row['from_update']:,}", "--"
    axes.axvline(row["update"], color="C3", linestyle=style, linewidth=1, label=text if labelled else None)


class ProgressReport:
    """A bar with loss, tokens/s and time left of this session, and a JSON line per log step in metrics.jsonl."""

    def __init__(
        self,
        folder: Path | None,
        title: str,
        *,
        quiet: bool = False,
        loss_name: str = "loss",
        sentences: int = 0,
    ) -> None:
        """loss_name: of the loss that training minimizes. sentences: held-out ones that a BLEU is measured on."""
        self.folder = folder
        self.bar = ProgressBar(
            total=1.0,
            desc=title,
            disable=quiet,
            miniters=0,  # by time alone: tqdm would wait for another step as large as a resume's first
            smoothing=0,  # the remaining time includes validations
            bar_format="{desc} {percentage:3.0f}% |{bar:20}| {elapsed}, {remaining} left{postfix}",
        )
        self.loss_name = loss_name
        self._recent: deque[tuple[float, int]] = deque(maxlen=RUNNING_MEAN_UPDATES)  # (summed loss, tokens) by update
        self.tokens = 0  # since the last line
        self.loss = 0.0  # summed over these tokens
        self.last: Row = {}  # fields of the last update, with which the next line starts
        self._trained = self._logged = (0, 0.0)  # tokens of this session, and their training time in seconds
        self._started = time.monotonic()
        self._clock: float | None = None  # when training last resumed
        self._held_out = ""
        self._sentences = f" ({sentences} sentences)" if 0 < sentences < FEW_SENTENCES else ""

    def step(self, update: int, epoch: int, loss: float, tokens: int, rate: float, fraction: float) -> None:
        """Reports an update. epoch: from 1. loss: mean nats per token. fraction: of the run that was over before it.
        The bar shows the mean loss of the last updates, over their tokens: one batch says little."""
        if self._clock is None:
            self._clock = self._started
            self.bar.initial = self.bar.n = fraction  # a resumed run did not do the first part in this session
        now = time.monotonic()
        self._trained = self._trained[0] + tokens, self._trained[1] + now - self._clock
        self._clock = now
        self.tokens += tokens
        self.loss += loss * tokens
        self.last = {"update": update, "epoch": epoch, "rate": rate}
        speed = self._trained[0] / max(self._trained[1], 1e-9)
        self._recent.append((loss * tokens, tokens))
        mean = sum(summed for summed, _ in self._recent) / sum(counted for _, counted in self._recent)
        shown = f"{self.loss_name} {mean:.3f} (mean of {pluralize(len(self._recent), 'update')})"
        state = f"epoch {epoch}, {shown}, {speed:,.0f} tokens/s{self._held_out}"
        self.bar.set_postfix_str(state, refresh=False)
        self.bar.update(max(0.0, fraction - self.bar.n))

    def log(self, seconds: float) -> None:
        """Writes a line about the tokens since the last line. seconds: of the run so far."""
        if not self.tokens:
            return
        tokens, trained_s = self._trained[0] - self._logged[0], self._trained[1] - self._logged[1]
        loss, speed = self.loss / self.tokens, round(tokens / max(trained_s, 1e-9), 1)
        self._write({**self.last, "loss": loss, "tokens_per_second": speed, "seconds": round(seconds, 2)})
        self.tokens, self.loss, self._logged = 0, 0.0, self._trained

    def validation(self, row: Row, validation: Validation) -> None:
        """row: update, epoch and seconds."""
        self.log(row["seconds"])
        loss, bleu, by_pair = validation.loss, validation.bleu, validation.by_pair or {}
        perplexity = math.exp(min(loss, 700.0))
        measured = {**row, "valid_loss": loss, "valid_perplexity": perplexity}
        measured |= {} if bleu is None else {"valid_bleu": bleu}
        measured |= {"valid_by_pair": {name: dict(scores) for name, scores in by_pair.items()}} if by_pair else {}
        self._write(measured)
        shown = "" if bleu is None else f", BLEU {bleu:.2f}{self._sentences}"
        self._held_out = f", held-out perplexity {perplexity:.2f}{shown}"
        if by_pair:
            measure = "loss" if bleu is None else "bleu"
            self._held_out += f" ({', '.join(f'{name} {scores[measure]:.2f}' for name, scores in by_pair.items())})"
        self._clock = time.monotonic()

    def event(self, row: Row, name: str, reason: str) -> None:
        """A turn of the run, for metrics.jsonl and the curves. row: update, epoch and seconds."""
        self._write({**row, "event": name, "reason": reason})

    def samples(self, row: Row, samples: Sequence[Sample]) -> None:
        if self.folder is None or not samples:
            return
        path = self.folder / SAMPLES_FILE
        append_row(path, {"update": row["update"], "epoch": row["epoch"], "samples": samples})
        (self.folder / "samples.md").write_text(samples_markdown(read_rows(path)), encoding="utf-8")
        self._clock = time.monotonic()

    def note(self, text: str) -> None:
        if not self.bar.disable:
            self.bar.note(text)

    def resumed(self, update: int, loss: float, tokens: int, last: Row, validated: int) -> None:
        """Removes lines that the resumed run will write again: updates after the snapshot, and later entries of the
        snapshot's own update. loss and tokens: sums since the last line. last: start of the next line if no step
        precedes it. validated: the last validated update."""
        self.loss, self.tokens, self.last = loss, tokens, dict(last)
        self._started = time.monotonic()

        def happens_again(row: Row) -> bool:
            if row.get("event") == "end":
                return True
            known = tokens == 0 if "loss" in row else validated == update
            return bool(row["update"] > update or (row["update"] == update and not known))

        if self.folder:
            for name in (METRICS_FILE, SAMPLES_FILE):
                remove_rows(self.folder / name, happens_again)

    def finished(self) -> None:
        """Fills the bar, whichever limit ended the run."""
        self.bar.update(max(0.0, 1.0 - self.bar.n))

    def close(self) -> None:
        self.bar.close()

    def _write(self, row: Row) -> None:
        if self.folder:
            append_row(self.folder / METRICS_FILE, row)
