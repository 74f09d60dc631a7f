"""Logits in float32 from features in bf16 or fp16. A product that is rounded to bf16 has 8 significant bits: the
largest logits then tie, and a tie, or a draw beside one, depends on which kernel the number of rows selects."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.exactness import is_known
from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import Transformer

LOW = (torch.bfloat16, torch.float16)


class FloatLogits:
    """The network's output projection. On CUDA the sums of bf16 and fp16 are kept in the float32 that they are made in,
    if the network's `project` is the known one; elsewhere the network's own logits are converted."""

    def __init__(self, network: Transformer | RecurrentLanguageModel) -> None:
        self.network = network
        weight = next(network.parameters())
        low = weight.device.type == "cuda" and weight.dtype in LOW
        self._known = low and is_known(network, "project")

    @property
    def unrounded(self) -> bool:
        """Whether logits are those of float32 sums that nothing has rounded."""
        return self._known and (self.network.output is None or type(self.network.output) is nn.Linear)

    def __call__(self, features: Tensor) -> Tensor:
        """features [B, C] -> logits [B, V], float32."""
        network = self.network
        if not self.unrounded:
            logits: Tensor = network.project(features)
            return logits.float()
        weight: Tensor
        bias: Tensor | None
        if isinstance(network, RecurrentLanguageModel):
            weight, bias = network.output.weight, network.output.bias
        else:
            weight, bias = network.output_weight, network.output_bias
        product = torch.mm(features, weight.t(), out_dtype=torch.float32)
        return product if bias is None else product.add_(bias)
