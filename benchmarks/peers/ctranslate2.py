"""CTranslate2 (https://github.com/OpenNMT/CTranslate2) with the weights of a Parlance checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.processes import Work

if TYPE_CHECKING:
    from models.checkpoint import CheckpointConfig

NEVER = -1e4
MOST_POSITIONS = 1024


@dataclass(frozen=True, slots=True)
class CTranslate2:
    """One process with `inter` translators of `intra` threads, between which it splits a batch itself."""

    folder: str
    compute_type: str
    inter: int
    intra: int
    device: str = "cpu"

    @property
    def processes(self) -> int:
        return 1

    def __str__(self) -> str:
        return f"{self.compute_type}, {self.inter} × {self.intra} threads"

    def open(self) -> Opened:
        return Opened(self)

    def tokens(self, answer: Any) -> list[list[int]]:
        return [[int(token[1:]) for token in tokens] for tokens in answer]


class Opened:
    def __init__(self, setting: CTranslate2) -> None:
        import ctranslate2

        self.inter = setting.inter
        self.translator = ctranslate2.Translator(
            setting.folder,
            device=setting.device,
            compute_type=setting.compute_type,
            inter_threads=setting.inter,
            intra_threads=setting.intra,
        )

    def translate(self, work: Work) -> list[list[str]]:
        """No minimum length and no suppression: the weights see to both, so CTranslate2 does not pay for them."""
        results = self.translator.translate_batch(
            [[f"t{token}" for token in source] for source in work.sources],
            beam_size=work.beam,
            max_decoding_length=max(work.limits),
            max_input_length=0,
            max_batch_size=max(1, -(-work.concurrent // self.inter)),
        )
        return [result.hypotheses[0] for result in results]


def compute_types(device: str) -> list[str]:
    import ctranslate2

    return sorted(ctranslate2.get_supported_compute_types(device))


def convert(checkpoint: Path, folder: Path, pieces: Sequence[str] | None = None) -> Path:
    """`folder`, now a CTranslate2 model with the checkpoint's weights. ValueError if CTranslate2 has no such network.
    pieces: the token names of both vocabularies; with them CTranslate2 itself adds the end token of a source."""
    from ctranslate2.specs import TransformerSpec, common_spec
    from safetensors.numpy import load_file

    from models.checkpoint import WEIGHTS, read_config
    from models.networks.transformer import sinusoids

    config = read_config(checkpoint)
    shape = config.architecture
    if shape["heads"] * shape["head_width"] != shape["d_model"] or shape["attention_scale"] is not None:
        raise ValueError("CTranslate2 takes heads that divide the width, scaled by their own.")
    tensors = load_file(checkpoint / WEIGHTS)
    activations = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
    spec = TransformerSpec.from_config(
        (shape["encoder_layers"], shape["decoder_layers"]),
        shape["heads"],
        pre_norm=shape["norm"] == "pre",
        activation=common_spec.Activation[activations[shape["activation"]]],
    )
    table = sinusoids(MOST_POSITIONS, shape["d_model"], shape["positions"]).numpy()
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = bool(shape["scale_embedding"])
        side.position_encodings.encodings = table
    source = tensors["source_embedding.weight"]
    target = tensors.get("target_embedding.weight", source)
    spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight = source, target
    fill_layers(spec, tensors, pre_norm=shape["norm"] == "pre")
    spec.decoder.projection.weight = tensors.get("output.weight", target)
    spec.decoder.projection.bias = output_bias(tensors, config, len(target))
    if pieces is None:
        finish(spec, config, [f"t{i}" for i in range(len(source))], [f"t{i}" for i in range(len(target))], folder)
    else:
        finish(spec, config, pieces, pieces, folder, adds_end=bool(config.source_suffix))
    return folder


def fill_layers(spec: Any, tensors: Mapping[str, Any], *, pre_norm: bool) -> None:
    def linear(place: Any, name: str, rows: slice = slice(None)) -> None:
        place.weight = tensors[f"{name}.weight"][rows]
        if f"{name}.bias" in tensors:
            place.bias = tensors[f"{name}.bias"][rows]

    def norm(place: Any, name: str) -> None:
        place.gamma, place.beta = tensors[f"{name}.weight"], tensors[f"{name}.bias"]

    for name, side in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        for number, layer in enumerate(side.layer):
            base = f"{name}.{number}"
            linear(layer.self_attention.linear[0], f"{base}.attention.projection")
            linear(layer.self_attention.linear[1], f"{base}.attention.output")
            norm(layer.self_attention.layer_norm, f"{base}.around_attention.norm")
            if name == "decoder":
                cross = f"{base}.cross_attention"
                inner = len(tensors[f"{cross}.projection.weight"]) // 3
                linear(layer.attention.linear[0], f"{cross}.projection", slice(0, inner))
                linear(layer.attention.linear[1], f"{cross}.projection", slice(inner, None))
                linear(layer.attention.linear[2], f"{cross}.output")
                norm(layer.attention.layer_norm, f"{base}.around_cross.norm")
            linear(layer.ffn.linear_0, f"{base}.feed_forward.widen")
            linear(layer.ffn.linear_1, f"{base}.feed_forward.narrow")
            norm(layer.ffn.layer_norm, f"{base}.around_feed_forward.norm")
        if pre_norm:
            norm(side.layer_norm, f"{name}_norm")


def output_bias(tensors: Mapping[str, Any], config: CheckpointConfig, size: int) -> Any:
    """The checkpoint's own, with its suppressed tokens out of reach: cheaper for the peer than a rule at each step."""
    import numpy as np

    bias = np.array(tensors.get("output_bias", np.zeros(size, "float32")))
    bias[list(config.suppressed)] = NEVER
    return bias


def finish(
    spec: Any,
    config: CheckpointConfig,
    source: Sequence[str],
    target: Sequence[str],
    folder: Path,
    *,
    adds_end: bool = False,
) -> None:
    """source, target: the names of the tokens, by which CTranslate2 finds unknown, start and end token. adds_end:
    whether it puts the end token behind a source."""
    from training.data.tokenizer_training import UNKNOWN

    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    spec.config.unk_token = target[UNKNOWN]
    spec.config.bos_token = spec.config.decoder_start_token = target[config.target_prefix[0]]
    spec.config.eos_token = target[config.eos]
    spec.config.add_source_bos, spec.config.add_source_eos = False, adds_end
    spec.config.layer_norm_epsilon = config.architecture["norm_epsilon"]
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True)
    spec.save(str(folder))
