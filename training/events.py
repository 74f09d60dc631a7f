"""TensorBoard events, for who asks for them with --tensorboard. tensorboardX writes them: it needs numpy, packaging
and protobuf, where TensorBoard's own writer brings a web server and gRPC along."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDER = "events"
TAGS = {
    "loss": "loss/training",
    "valid_loss": "loss/held_out",
    "valid_perplexity": "perplexity/held_out",
    "valid_bleu": "BLEU/held_out",
    "rate": "learning_rate",
    "tokens_per_second": "tokens_per_second",
}


def problems() -> Iterator[str]:
    if find_spec("tensorboardX") is None:
        yield "--tensorboard needs the package tensorboardX: pip install tensorboardX"


class Events:
    """The rows of metrics.jsonl as scalars, and the samples as texts."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.writer = folder / FOLDER, None

    def forget_after(self, update: int) -> None:
        """TensorBoard hides what an earlier session has said of later updates."""
        self._open(purge_step=update + 1, filename_suffix=f".from-{update + 1}")

    def scalars(self, row: dict[str, Any]) -> None:
        writer = self.writer or self._open()
        for name, tag in TAGS.items():
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
