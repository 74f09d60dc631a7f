"""Which networks the C kernels compute: unmodified ones, with the code that the kernels were written for.
`transformer_difference` and `recurrent_difference` name the difference of any other network."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from models import networks
from models.exactness import FUNCTIONS, TABLE, as_written, definitions, difference
from models.networks.recurrent import RecurrentLanguageModel, cell_difference
from models.networks.transformer import FeedForward, Transformer


def transformer_difference(network: Transformer) -> str | None:
    """Why the kernels cannot compute the network; None if they can."""
    for name, module in network.named_modules():
        if isinstance(module, FeedForward) and module.activation is not FUNCTIONS.get(network.config.activation):
            return f"{name} has another activation"
    return difference(network, as_written(network, Transformer)) or _tensor_difference(network)


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


def current_code() -> str:
    """The table of the fingerprints of the code as it is."""
    folder = Path(networks.__path__[0])
    rows = [
        f"models.networks.{name}\t{label}\t{digits}\n"
        for name in ("cells", "recurrent", "transformer")
        for label, digits in definitions((folder / f"{name}.py").read_text(encoding="utf-8")).items()
    ]
    return "".join(rows)


if __name__ == "__main__":
    (Path(networks.__path__[0]) / TABLE).write_text(current_code(), encoding="utf-8")
