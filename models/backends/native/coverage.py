"""Which networks the C kernels compute: unmodified ones, with the code that the kernels were written for.
`transformer_difference` and `recurrent_difference` name the difference of any other network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor, nn
from torch.nn import functional as F

from models import source_fingerprints
from models.exactness import as_written, difference, fingerprint, methods
from models.networks.cells import CELLS
from models.networks.recurrent import FUSED, RecurrentCell, RecurrentLanguageModel, cell_difference
from models.networks.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Projection,
    Residual,
    Transformer,
)

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
OURS = (
    *(Projection, MultiHeadAttention, FeedForward, Residual, EncoderLayer, DecoderLayer, Transformer),
    *(RecurrentCell, RecurrentLanguageModel),
)


def transformer_difference(network: Transformer) -> str | None:
    """Why the kernels cannot compute the network; None if they can."""
    if changed := difference(network, as_written(network, Transformer)) or _tensor_difference(network):
        return changed
    for name, module in network.named_modules():
        if isinstance(module, FeedForward) and module.activation is not ACTIVATIONS.get(network.config.activation):
            return f"{name} has another activation"
    return None


def recurrent_difference(network: RecurrentLanguageModel) -> str | None:
    """As `transformer_difference`."""
    changed = cell_difference(network) or difference(network, as_written(network, RecurrentLanguageModel))
    return changed or _tensor_difference(network)


def _tensor_difference(network: nn.Module) -> str | None:
    """The kernels read contiguous parameters of a single dtype."""
    dtype = next(network.parameters()).dtype
    for name, parameter in network.named_parameters():
        if not parameter.is_contiguous():
            return f"{name} is not contiguous"
        if parameter.dtype != dtype:
            return f"{name} has another number format"
    return None


def current_code() -> dict[str, str]:
    """Fingerprints of the current code, with the keys of `models.source_fingerprints`."""
    found = {f"{kind.__qualname__}.{name}": fingerprint(vars(kind)[name]) for kind in OURS for name in methods(kind)}
    return dict(sorted({**found, **{kind: fingerprint(CELLS[kind].step) for kind in FUSED}}.items()))


def main() -> None:
    """Writes the current fingerprints to `models.source_fingerprints`."""
    path = Path(str(source_fingerprints.__file__))
    text, table = path.read_text(), "\n".join(f'    "{name}": "{code}",' for name, code in current_code().items())
    path.write_text(f"{text[: text.index('CODE: ')]}CODE: dict[str, str] = {{\n{table}\n}}\n")


if __name__ == "__main__":
    main()
