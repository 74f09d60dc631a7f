"""A folder that ctranslate2.Translator loads, written through the library's own specification of a Transformer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from models.checkpoint import CheckpointConfig
from models.networks.transformer import TransformerConfig, sinusoids
from training.errors import TrainingError
from training.exporters.exportable import Exportable
from training.exporters.sentencepiece_files import pieces_of

Array = npt.NDArray[np.float32]
QUANTIZATIONS = (
    *("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"),
    "float32",
)
ACTIVATION_NAMES = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
NEVER = -1e4  # logit bias of suppressed tokens


def check_ctranslate2(config: TransformerConfig) -> None:
    """TrainingError names the first property of the network that CTranslate2 lacks."""
    for problem in _missing_in_ctranslate2(config):
        raise TrainingError(f"CTranslate2 has no {problem}: use --to onnx.")


def _missing_in_ctranslate2(config: TransformerConfig) -> Iterator[str]:
    if config.heads * config.head_width != config.d_model:
        product = f"{config.heads} heads of {config.head_width}"
        yield f"{product} in a width of {config.d_model}, only heads that divide the width"
    if config.attention_scale not in (None, config.head_width**-0.5):
        yield f"attention_scale ({config.attention_scale:g}), only 1/sqrt(head_width)"


def transformer_spec(config: TransformerConfig, tensors: Mapping[str, Array], bias: Array, positions: int) -> Any:
    """The `TransformerSpec` of a network that passed `check_ctranslate2`. tensors: by our names. bias: of the logits,
    [V]. positions: rows of the position table, which bound the length of source and target."""
    from ctranslate2.specs import TransformerSpec, common_spec

    spec = TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=common_spec.Activation[ACTIVATION_NAMES[config.activation]],
    )
    table = sinusoids(positions, config.d_model, config.positions).numpy()
    source = tensors["source_embedding.weight"]
    target = tensors.get("target_embedding.weight", source)
    for side, name, embedding in (
        (spec.encoder, "encoder", spec.encoder.embeddings[0]),
        (spec.decoder, "decoder", spec.decoder.embeddings),
    ):
        embedding.weight = source if name == "encoder" else target
        side.scale_embeddings = config.scale_embedding
        side.position_encodings.encodings = table
        for number, layer in enumerate(side.layer):
            _fill_layer(layer, f"{name}.{number}", tensors)
        if config.norm == "pre":
            _fill_norm(side.layer_norm, f"{name}_norm", tensors)
    spec.decoder.projection.weight = tensors.get("output.weight", target)
    spec.decoder.projection.bias = bias
    spec.config.layer_norm_epsilon = config.norm_epsilon
    return spec


def _fill_layer(layer: Any, name: str, tensors: Mapping[str, Array]) -> None:
    """name: of the layer, such as decoder.0; only layers of the decoder have cross-attention."""
    _fill_linear(layer.self_attention.linear[0], f"{name}.attention.projection", tensors)
    _fill_linear(layer.self_attention.linear[1], f"{name}.attention.output", tensors)
    _fill_norm(layer.self_attention.layer_norm, f"{name}.around_attention.norm", tensors)
    cross = f"{name}.cross_attention"
    if f"{cross}.projection.weight" in tensors:
        inner = len(tensors[f"{cross}.projection.weight"]) // 3
        _fill_linear(layer.attention.linear[0], f"{cross}.projection", tensors, slice(0, inner))
        _fill_linear(layer.attention.linear[1], f"{cross}.projection", tensors, slice(inner, None))
        _fill_linear(layer.attention.linear[2], f"{cross}.output", tensors)
        _fill_norm(layer.attention.layer_norm, f"{name}.around_cross.norm", tensors)
    _fill_linear(layer.ffn.linear_0, f"{name}.feed_forward.widen", tensors)
    _fill_linear(layer.ffn.linear_1, f"{name}.feed_forward.narrow", tensors)
    _fill_norm(layer.ffn.layer_norm, f"{name}.around_feed_forward.norm", tensors)


def _fill_linear(place: Any, name: str, tensors: Mapping[str, Array], rows: slice = slice(None)) -> None:
    place.weight = tensors[f"{name}.weight"][rows]
    if f"{name}.bias" in tensors:
        place.bias = tensors[f"{name}.bias"][rows]


def _fill_norm(place: Any, name: str, tensors: Mapping[str, Array]) -> None:
    place.gamma, place.beta = tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def logit_bias(tensors: Mapping[str, Array], suppressed: Sequence[int], size: int) -> Array:
    """The network's own output bias, with suppressed tokens out of reach: no rule needs to run at each step."""
    bias: Array = np.array(tensors.get("output_bias", np.zeros(size, np.float32)))
    bias[list(suppressed)] = NEVER
    return bias


def save_spec(
    spec: Any, config: CheckpointConfig, pieces: tuple[Sequence[str], Sequence[str]], names: Mapping[str, str | None],
    folder: Path, quantization: str | None = None,
) -> None:  # fmt: skip
    """pieces: of source and target, in order of id. names: the tokens bos, eos and unk. Writes into `folder`."""
    spec.register_source_vocabulary(list(pieces[0]))
    spec.register_target_vocabulary(list(pieces[1]))
    for name, piece in names.items():
        if piece is not None:
            setattr(spec.config, f"{name}_token", piece)
    spec.config.decoder_start_token = pieces[1][config.target_prefix[0]]
    spec.config.add_source_bos = False
    # one end token serves both sides there
    spec.config.add_source_eos = [pieces[0][i] for i in config.source_suffix] == [names["eos"]]
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def write_ctranslate2_folder(model: Exportable, folder: Path, quantization: str | None) -> None:
    """TrainingError if CTranslate2 lacks something that the model has."""
    network, shape = model.transformer("ctranslate2")
    check_ctranslate2(shape)
    config, tokenizers = model.config, model.checkpoint.tokenizers
    special = tokenizers["target"].special
    if config.eos is None or special.unknown is None:
        raise TrainingError("CTranslate2 needs an end token and an unknown token, and the model lacks one of them.")
    if shape.pad in config.source_suffix:
        raise TrainingError(
            f"The sources of {model.checkpoint.folder} end with padding that the network never attends to, and"
            " CTranslate2 attends to every token: use --to onnx, or train with tokenizer.source_end = eos."
        )
    tensors = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    bias = logit_bias(tensors, config.suppressed, shape.target_vocabulary)
    pieces = (
        pieces_of(tokenizers["source"], shape.source_vocabulary),
        pieces_of(tokenizers["target"], shape.target_vocabulary),
    )
    names = {"eos": pieces[1][config.eos], "unk": pieces[1][special.unknown], "bos": pieces[1][model.start]}
    save_spec(transformer_spec(shape, tensors, bias, model.longest), config, pieces, names, folder, quantization)
    for side, tokenizer in tokenizers.items():
        if model_file := getattr(tokenizer, "model", None):
            (folder / f"{side}.spm").write_bytes(model_file)
