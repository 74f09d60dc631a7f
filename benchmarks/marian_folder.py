"""Marian folders in Hugging Face's form with the shapes of OPUS-MT models and random weights, as `--from` and
`import-marian` take them.

The shapes and fields are those that transformers' conversion scripts write (convert_marian_to_pytorch.py at v2.8 to
v4.40), read beside published folders: opus-mt-zh-en's config.json for the first form, the parameters, bytes and
positions of opus-mt_tiny models for the students."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import sentencepiece
import torch
from safetensors.torch import save_file
from torch import Tensor

from models.networks.transformer import sinusoids


@dataclass(frozen=True, slots=True)
class MarianShape:
    """like: a published model of this shape. vocabulary: padding included. tables: one embedding of both sides, which
    is the output matrix too ("one"); an embedding for each side, of which the target's is the output matrix ("two");
    the same with an output matrix of its own ("three"). vocabularies: 2 for vocab.json and target_vocab.json. eos: the
    id of </s>, 0 in models of 2020. languages: target languages with a token. form: config.json and
    a pickle with position tables as the first conversions wrote them, or the files of today in float16.
    generation_config: whether there is the file of that name, which the Hub has added to the folders of both forms."""

    like: str
    width: int = 512
    heads: int = 8
    inner: int = 2048
    layers: tuple[int, int] = (6, 6)
    activation: Literal["swish", "relu"] = "swish"
    vocabulary: int = 58_101
    tables: Literal["one", "two", "three"] = "one"
    vocabularies: int = 1
    eos: int = 0
    languages: tuple[str, ...] = ()
    source_target: tuple[str, str] = ("de", "en")
    positions: int = 512
    form: Literal["2020", "float32", "float16"] = "float32"
    generation_config: bool = True

    def small(self) -> MarianShape:
        """The same kind of network with few parameters, for tests."""
        eos = min(self.eos, 17)
        return replace(self, width=32, heads=4, inner=64, vocabulary=700, eos=eos, positions=128)


def _shapes() -> dict[str, MarianShape]:
    rows: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("opus_shapes.json").read_text("utf-8"))
    return {
        name: MarianShape(**{key: tuple(each) if isinstance(each, list) else each for key, each in row.items()})
        for name, row in rows.items()
    }


SHAPES = _shapes()


def write_marian_folder(
    folder: Path,
    sources: Sequence[str],
    targets: Sequence[str],
    size: int,
    shape: MarianShape,
) -> None:
    """size: of the vocabulary of each side that is trained on these texts; the rest of the shape's is unused."""
    folder.mkdir(parents=True, exist_ok=True)
    models = [_segmentation(texts, size) for texts in (sources, targets)]
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    for name, content in _files(shape, models).items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    tensors = varied_tensors(shape)
    if shape.form == "2020":
        table = sinusoids(shape.positions, shape.width, "marian")
        tensors = tensors | {f"model.{side}.embed_positions.weight": table for side in ("encoder", "decoder")}
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        kept = {name: tensor.half() if shape.form == "float16" else tensor for name, tensor in tensors.items()}
        save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


GAIN, FEED_FORWARD_GAIN = 2.0, 6.0  # over Glorot's
ENDS = 1.6  # deviations below the likeliest token's logit at which the end's lies


def varied_tensors(shape: MarianShape, seed: int = 1) -> dict[str, Tensor]:
    """Every tensor under transformers' names: matrices by Glorot, tables with the deviation width ** -0.5.

    Sublayers are so strong that the source and the place decide what is written, and no stronger, because then the last
    bits of a sum choose between hypotheses (at a gain of 6 and 30, transformers agreed with itself, alone and in a
    batch, on 41 of 50 sentences); biases and norms are away from 0 and 1, which would hide one that was forgotten.
    Padding, which starts every target, is a row of zeros."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, size in _sizes(shape):
        drawn = torch.randn(size, generator=generator)
        if name.endswith("bias") or "layer_norm" in name:
            tensors[name] = drawn * 0.1 + (0 if name.endswith("bias") else 1)
        elif _is_table(name):
            tensors[name] = drawn * shape.width**-0.5
            tensors[name][shape.vocabulary - 1] = 0
        else:
            gain = (FEED_FORWARD_GAIN if ".fc" in name else GAIN) * (2 if "encoder_attn" in name else 1)
            tensors[name] = drawn * (2 / sum(size)) ** 0.5 * gain
        if name.endswith("fc2.weight"):
            tensors[name].sub_(tensors[name].mean(dim=1, keepdim=True))  # without the constant that an activation adds
    likeliest = math.sqrt(2 * math.log(shape.vocabulary))  # of logits with the deviation 1
    tensors["final_logits_bias"][0, shape.eos] += likeliest - ENDS
    return tensors


def _is_table(name: str) -> bool:
    return "embed_tokens" in name or name in ("model.shared.weight", "lm_head.weight")


def _sizes(shape: MarianShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, inner = shape.width, shape.inner
    tables = {
        "one": ("model.shared",),
        "two": ("model.encoder.embed_tokens", "model.decoder.embed_tokens"),
        "three": ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"),
    }
    for name in tables[shape.tables]:
        yield f"{name}.weight", (shape.vocabulary, width)
    yield "final_logits_bias", (1, shape.vocabulary)
    sides = (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn")))
    for (side, attentions), layers in zip(sides, shape.layers, strict=True):
        for number in range(layers):
            layer = f"model.{side}.layers.{number}"
            matrices = [f"{name}.{part}" for name in attentions for part in ("q_proj", "k_proj", "v_proj", "out_proj")]
            for name, out, into in (
                *((name, width, width) for name in matrices),
                ("fc1", inner, width),
                ("fc2", width, inner),
            ):
                yield f"{layer}.{name}.weight", (out, into)
                yield f"{layer}.{name}.bias", (out,)
            for name in (*attentions, "final"):
                yield f"{layer}.{name}_layer_norm.weight", (width,)
                yield f"{layer}.{name}_layer_norm.bias", (width,)


def _segmentation(texts: Sequence[str], size: int) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def _pieces(models: Sequence[bytes], shape: MarianShape) -> dict[str, int]:
    """Marian's numbering: padding last. Pieces that no text contains make up the real size."""
    pieces: dict[str, None] = dict.fromkeys(f">>{code}<<" for code in shape.languages)
    for model in models:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces |= {processor.id_to_piece(i): None for i in range(3, processor.get_piece_size())}
    names = ["<unk>", *list(pieces)[: shape.vocabulary - 3]]
    names += [f"▁unused{i}" for i in range(shape.vocabulary - 2 - len(names))]
    names.insert(shape.eos, "</s>")
    return {name: i for i, name in enumerate([*names, "<pad>"])}


def _files(shape: MarianShape, models: Sequence[bytes]) -> dict[str, Any]:
    """The JSON files of a folder by name."""
    pad = shape.vocabulary - 1
    tokens: dict[str, Any] = {"eos_token_id": shape.eos, "pad_token_id": pad, "decoder_start_token_id": pad}
    search = {"bad_words_ids": [[pad]], "max_length": 512, "num_beams": 6 if shape.form == "2020" else 4}
    config = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "activation_function": shape.activation,
        "d_model": shape.width,
        "vocab_size": shape.vocabulary,
        **{f"{side}_layers": count for side, count in zip(("encoder", "decoder"), shape.layers, strict=True)},
        **{f"{side}_attention_heads": shape.heads for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": shape.inner for side in ("encoder", "decoder")},
        "max_position_embeddings": shape.positions,
        "static_position_embeddings": True,
        "scale_embedding": True,
        "normalize_embedding": False,
        **tokens,
    }
    source, target = shape.source_target
    options: dict[str, Any] = {"source_lang": source, "target_lang": target}
    files: dict[str, Any] = {"tokenizer_config.json": options, "config.json": config}
    if shape.form == "2020":
        config |= {"add_bias_logits": False, "add_final_layer_norm": False, "normalize_before": False, **search}
        config |= {"bos_token_id": 0, "extra_pos_embeddings": shape.vocabulary, "is_encoder_decoder": True}
    else:
        config |= {
            "decoder_vocab_size": shape.vocabulary,
            "share_encoder_decoder_embeddings": shape.tables == "one",
            "tie_word_embeddings": shape.tables != "three",
            "forced_eos_token_id": shape.eos,
            "torch_dtype": shape.form,
        }
        options |= {"separate_vocabs": shape.vocabularies > 1, "model_max_length": 512}
    if shape.generation_config:
        ends = {"forced_eos_token_id": shape.eos, "renormalize_logits": True}
        files["generation_config.json"] = {**tokens, **ends, **search}
    sides = [models] if shape.vocabularies == 1 else [[model] for model in models]
    for name, own in zip(("vocab.json", "target_vocab.json"), sides, strict=False):
        files[name] = _pieces(own, shape)
    return files
