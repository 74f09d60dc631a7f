"""Weights of our Transformer as those of MarianMTModel (post-norm) or PegasusForConditionalGeneration (pre-norm)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from models.networks.transformer import Transformer, TransformerConfig, sinusoids
from training.errors import TrainingError
from training.exporters.exportable import TITLES, Form
from training.importers.marian.hub_folder import JsonObject
from training.importers.marian.weight_conversion import (
    BIAS,
    OUTPUT,
    POSITIONS,
    SHARED,
    SOURCE,
    TARGET,
    marian_order,
    reorder_channels,
    tensor_names,
)

EPSILON = 1e-5  # of nn.LayerNorm, which both classes leave at its default


def check_form(config: TransformerConfig, form: Form) -> None:
    """TrainingError names the first property of the network that the form lacks, and the way out."""
    for problem in _missing_in_form(config, form):
        raise TrainingError(f"{TITLES[form]} has no {problem}.")


def _missing_in_form(config: TransformerConfig, form: Form) -> Iterator[str]:
    others = "use --to ctranslate2 or --to onnx"
    if form == "marian" and config.norm == "pre":
        yield "layer norms before its layers (norm = pre), and its Pegasus has them: use --to pegasus or transformers"
    if form == "pegasus" and config.norm == "post":
        yield "layer norms behind its layers (norm = post), and its Marian has them: use --to marian or transformers"
    if form == "pegasus" and config.tied != "all":
        yield f"separate embeddings of source and target (tied = {config.tied}): {others}, or train with tied = all"
    if config.heads * config.head_width != config.d_model:
        product = f"{config.heads} heads of {config.head_width}"
        yield f"{product} in a width of {config.d_model}, only heads that divide the width: use --to onnx"
    if config.attention_scale not in (None, config.head_width**-0.5):
        yield f"attention_scale ({config.attention_scale:g}), only 1/sqrt(head_width): use --to onnx"
    if config.norm_epsilon != EPSILON:
        yield f"norm_epsilon ({config.norm_epsilon:g}), only {EPSILON:g}: {others}"


def transformers_tensors(network: Transformer, described: JsonObject, longest: int) -> dict[str, Tensor]:
    """Tensors under transformers' names. described: config.json. longest: rows of a stored position table."""
    config = network.config
    tensors: Mapping[str, Tensor] = network.state_dict()
    if config.positions == "interleaved":
        tensors = reorder_channels(tensors.items(), marian_order(config.d_model))
    result = dict(_embeddings(tensors, config))
    if config.norm == "pre":  # transformers computes Marian's table in any case, Pegasus' only with a warning
        result |= {name: sinusoids(longest, config.d_model, "marian") for name in POSITIONS}
    bias = tensors.get("output_bias")
    result[BIAS] = (torch.zeros(config.target_vocabulary) if bias is None else bias)[None]
    for ours, theirs in tensor_names(described):
        width = 3 * config.d_model if len(theirs) == 3 else config.d_model
        tensor = tensors.get(ours)  # attention without biases: zeros
        parts = (torch.zeros(width) if tensor is None else tensor).chunk(len(theirs))
        result.update(zip(theirs, parts, strict=True))
    return {name: tensor.detach().clone().contiguous() for name, tensor in result.items()}


def _embeddings(tensors: Mapping[str, Tensor], config: TransformerConfig) -> Iterator[tuple[str, Tensor]]:
    source = tensors["source_embedding.weight"]
    if config.tied == "all":
        yield SHARED, source
        return
    yield SOURCE, source
    yield TARGET, tensors["target_embedding.weight"]
    if config.tied == "none":
        yield OUTPUT, tensors["output.weight"]
