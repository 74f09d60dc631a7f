"""A folder that transformers loads with AutoTokenizer and AutoModelForSeq2SeqLM.

Post-norm networks become MarianMTModel, pre-norm networks PegasusForConditionalGeneration: of the classes of
transformers, it is the one with norms before the layers, a final norm and Marian's sinusoids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from models.checkpoint import WEIGHTS
from models.networks.transformer import Transformer, TransformerConfig, sinusoids
from training.errors import TrainingError
from training.exporters.exportable import TITLES, Exportable, Form
from training.exporters.sentencepiece_files import write_json, write_tokenizer_files
from training.importers.marian.hub_folder import JsonObject
from training.importers.marian.weight_conversion import (
    BIAS,
    OUTPUT,
    POSITIONS,
    RECORD,
    SHARED,
    SOURCE,
    TARGET,
    marian_order,
    reorder_channels,
    tensor_names,
)

CLASSES: dict[str, str] = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
ACTIVATIONS_THERE = {"silu": "swish", "relu": "relu", "gelu": "gelu"}
LACKING = ("positions", "attention_bias", "output_bias")  # options that the weights make up for
EPSILON = 1e-5  # of nn.LayerNorm, which both classes leave at its default
OF_THE_FORM = {"positions": "marian", "attention_bias": True, "output_bias": True}


def form_of_transformers(config: TransformerConfig) -> Form:
    return "pegasus" if config.norm == "pre" else "marian"


def write_transformers_folder(model: Exportable, folder: Path, form: Form) -> None:
    """TrainingError if the form lacks something that the network has."""
    network, shape = model.transformer(form)
    check_form(shape, form)
    described = transformers_config(model, shape, form)
    write_tokenizer_files(model, folder, (shape.source_vocabulary, shape.target_vocabulary), form)
    write_json(folder / "config.json", described)
    write_json(folder / "generation_config.json", generation_settings(model, shape.pad))
    tensors = transformers_tensors(network, described, model.longest)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod((folder / "config.json").stat().st_mode)  # safetensors writes for the user alone


def transformers_config(model: Exportable, shape: TransformerConfig, form: Form) -> JsonObject:
    """config.json. Under `parlance`, what an import needs to restore the very weights and language pairs."""
    sides = {
        f"{side}_{name}": value
        for side, layers in (("encoder", shape.encoder_layers), ("decoder", shape.decoder_layers))
        for name, value in (("layers", layers), ("attention_heads", shape.heads), ("ffn_dim", shape.d_ff))
    }
    of_marian = {
        "decoder_vocab_size": shape.target_vocabulary,
        "share_encoder_decoder_embeddings": shape.tied == "all",
        "static_position_embeddings": True,
    }
    record: dict[str, object] = {
        name: value for name in LACKING if (value := getattr(shape, name)) != OF_THE_FORM[name]
    }
    if pairs := model.config.language_pairs:
        piece = model.checkpoint.tokenizers["source"].piece
        record["language_pairs"] = [[pair.source, pair.target, *map(piece, pair.source_prefix)] for pair in pairs]
    return {
        "model_type": form,
        "architectures": [CLASSES[form]],
        "is_encoder_decoder": True,
        "dtype": "float32",
        "vocab_size": shape.source_vocabulary,
        **(of_marian if form == "marian" else {}),
        "tie_word_embeddings": shape.tied != "none",
        "d_model": shape.d_model,
        **sides,
        "activation_function": ACTIVATIONS_THERE[shape.activation],
        "scale_embedding": shape.scale_embedding,
        "max_position_embeddings": model.longest,
        "dropout": shape.residual_dropout,
        "attention_dropout": shape.attention_dropout,
        "activation_dropout": shape.activation_dropout,
        **_token_ids(model, shape.pad),
        **({RECORD: record} if record else {}),
    }


def _token_ids(model: Exportable, pad: int) -> JsonObject:
    return {
        "bos_token_id": model.checkpoint.tokenizers["target"].special.bos,
        "pad_token_id": pad,
        "eos_token_id": model.config.eos,
        "decoder_start_token_id": model.start,
        "forced_eos_token_id": model.config.eos if model.config.forced_end else None,
    }


def generation_settings(model: Exportable, pad: int) -> JsonObject:
    """generation_config.json: our rules for tokens, and beams of 4 unless the model came with others."""
    config = model.config
    recorded = config.training.get("generation")
    recorded = recorded if isinstance(recorded, dict) else {}
    return {
        **_token_ids(model, pad),
        "suppress_tokens": list(config.suppressed),
        "renormalize_logits": config.renormalise,
        "max_length": config.max_new_tokens + len(config.target_prefix),
        "num_beams": recorded.get("num_beams", 4),
        "length_penalty": recorded.get("length_penalty", 1.0),
        "early_stopping": False,
    }


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
