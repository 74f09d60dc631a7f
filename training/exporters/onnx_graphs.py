"""ONNX graphs of a network's own modules, traced by torch.onnx, with files and tensors named as Optimum names them.

A translator becomes encoder_model.onnx, decoder_model.onnx (the first step: it also projects the encoder's output to
keys and values) and decoder_with_past_model.onnx (later steps). A lyricist becomes model.onnx, one step with its state.
Batch and lengths are dynamic; the position table in a graph bounds the lengths. onnxruntime then runs every graph on
other lengths than the traced ones: a graph that differs from the network is refused, not written."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from models.networks.recurrent import RecurrentLanguageModel, RecurrentState
from models.networks.transformer import KeyValue, Scope, Transformer
from training.errors import TrainingError
from training.exporters.exportable import Exportable
from training.importers.marian.hub_folder import first_line

OPSET = 18
TOLERANCE = 1e-3  # between onnxruntime and PyTorch, relative to the largest output; fp32 gives some 1e-6
MOST_BYTES = 1_800_000_000  # of weights inside of a graph's file, which protobuf limits to 2 GiB
Arguments = tuple[Tensor, ...]


class KeyValueLog:
    """A `Cache` without room of its own: new keys and values after the past ones, [B, H, T, D]."""

    def __init__(self, past: Sequence[KeyValue] = ()) -> None:
        self.past, self.present = past, list[KeyValue]()

    def update(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        if self.past:
            key, value = (torch.cat(pair, dim=2) for pair in zip(self.past[layer], (key, value), strict=True))
        self.present.append((key, value))
        return key, value


class EncoderGraph(nn.Module):
    """input_ids, attention_mask [B, S] -> memory [B, S, C]."""

    def __init__(self, network: Transformer) -> None:
        super().__init__()
        self.network = network

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        memory, _ = self.network.encode(input_ids.masked_fill(attention_mask == 0, self.network.config.pad))
        return memory


class FirstStepGraph(nn.Module):
    """encoder_attention_mask [B, S], input_ids [B, T], memory [B, S, C] -> logits [B, T, V], then of each layer the
    keys and values of the targets [B, H, T, D] and of the source [B, H, S, D]."""

    def __init__(self, network: Transformer) -> None:
        super().__init__()
        self.network = network

    def forward(self, encoder_attention_mask: Tensor, input_ids: Tensor, encoder_hidden_states: Tensor) -> Arguments:
        network, log = self.network, KeyValueLog()
        sources = list(network.source_key_values(encoder_hidden_states))
        positions = torch.arange(input_ids.size(1))
        scope = Scope(positions, causal=True)
        source_scope = Scope(positions, (encoder_attention_mask != 0)[:, None, None, :])
        features = network.decode_over(input_ids, scope, sources, source_scope, log)
        pairs = zip(log.present, sources, strict=True)
        return network.project(features), *(tensor for own, source in pairs for tensor in (*own, *source))


class NextStepGraph(nn.Module):
    """encoder_attention_mask [B, S], input_ids [B, T], past: of each layer the keys and values of the P targets so far
    and of the source -> logits [B, T, V], then of each layer the keys and values of P + T targets."""

    def __init__(self, network: Transformer) -> None:
        super().__init__()
        self.network = network

    def forward(self, encoder_attention_mask: Tensor, input_ids: Tensor, past: Sequence[Tensor]) -> Arguments:
        count, length = past[0].size(2), input_ids.size(1)
        log = KeyValueLog([(past[i], past[i + 1]) for i in range(0, len(past), 4)])
        sources = [(past[i], past[i + 1]) for i in range(2, len(past), 4)]
        positions = count + torch.arange(length)
        scope = Scope(positions, (torch.arange(count + length) <= positions[:, None])[None, None])
        source_scope = Scope(positions, (encoder_attention_mask != 0)[:, None, None, :])
        features = self.network.decode_over(input_ids, scope, sources, source_scope, log)
        return self.network.project(features), *(tensor for pair in log.present for tensor in pair)


class LyricistGraph(nn.Module):
    """input_ids [B, 1], hidden and memory [L, B, N] -> logits [B, 1, V], hidden and memory after this token."""

    def __init__(self, network: RecurrentLanguageModel) -> None:
        super().__init__()
        self.network = network

    def forward(self, input_ids: Tensor, past_hidden: Tensor, past_memory: Tensor) -> Arguments:
        logits, state = self.network(input_ids, RecurrentState(past_hidden, past_memory))
        return logits, state.hidden, state.memory


def past_names(layers: int, prefix: str, parts: Sequence[str] = ("decoder", "encoder")) -> list[str]:
    return [f"{prefix}.{i}.{part}.{kind}" for i in range(layers) for part in parts for kind in ("key", "value")]


def write_graphs(model: Exportable, folder: Path) -> None:
    """TrainingError if the network cannot be traced, or if a graph computes something else than the network."""
    with torch.inference_mode(False), torch.no_grad():
        if isinstance(model.network, RecurrentLanguageModel):
            _write_lyricist(model.network, folder)
        elif all(hasattr(model.network, name) for name in ("encode", "decode_over", "source_key_values", "project")):
            assert isinstance(model.network, Transformer)
            _write_translator(model.network, folder, model.longest)
        else:
            kind = type(model.network).__name__
            raise TrainingError(f"{kind} has no encode, decode_over and project, of which ONNX graphs are made.")


def _write_translator(network: Transformer, folder: Path, longest: int) -> None:
    config, layers = network.config, network.config.decoder_layers
    network.position_vectors(longest)  # a graph cannot grow its table
    batch, source, target, past = Dim("batch"), *(Dim(name, max=longest) for name in ("source", "target", "past"))
    heads = {0: batch, 2: past}, {0: batch, 2: past}, {0: batch, 2: source}, {0: batch, 2: source}

    def arguments(rows: int, sources: int, targets: int) -> tuple[Arguments, Arguments, tuple[Any, ...]]:
        generator = torch.Generator().manual_seed(rows)
        ids = torch.randint(config.source_vocabulary, (rows, sources), generator=generator)
        ids[ids == config.pad] = (config.pad + 1) % config.source_vocabulary
        mask = torch.ones(rows, sources, dtype=torch.long)
        mask[-1, sources - 1 :] = 0
        tokens = torch.randint(config.target_vocabulary, (rows, targets), generator=generator)
        first = mask, tokens, EncoderGraph(network)(ids, mask)
        _, *state = FirstStepGraph(network)(*first)
        return (ids, mask), first, (mask, tokens[:, :1], state)

    traced, other = arguments(2, 5, 3), arguments(3, 7, 4)
    mask_shape, ids_shape = {0: batch, 1: source}, {0: batch, 1: target}
    graphs: tuple[tuple[str, nn.Module, tuple[Any, ...], list[str], list[str]], ...] = (
        (
            "encoder_model",
            EncoderGraph(network),
            (mask_shape, mask_shape),
            ["input_ids", "attention_mask"],
            ["last_hidden_state"],
        ),
        (
            "decoder_model",
            FirstStepGraph(network),
            (mask_shape, ids_shape, mask_shape),
            ["encoder_attention_mask", "input_ids", "encoder_hidden_states"],
            ["logits", *past_names(layers, "present")],
        ),
        (
            "decoder_with_past_model",
            NextStepGraph(network),
            (mask_shape, {0: batch}, [shape for _ in range(layers) for shape in heads]),
            ["encoder_attention_mask", "input_ids", *past_names(layers, "past_key_values")],
            ["logits", *past_names(layers, "present", ["decoder"])],
        ),
    )
    for (name, graph, shapes, inputs, outputs), example, check in zip(graphs, traced, other, strict=True):
        _write_graph(graph, example, shapes, inputs, outputs, folder / f"{name}.onnx")
        _check_graph(graph, check, folder / f"{name}.onnx")


def _write_lyricist(network: RecurrentLanguageModel, folder: Path) -> None:
    batch = Dim("batch")
    shapes = {0: batch}, {1: batch}, {1: batch}

    def arguments(rows: int) -> Arguments:
        ids = torch.arange(rows)[:, None] % network.config.vocabulary
        state = network.zeros(rows)
        _, after = network(ids, state)
        return ids, after.hidden, after.memory

    graph, path = LyricistGraph(network), folder / "model.onnx"
    inputs, outputs = ["input_ids", "past_hidden", "past_memory"], ["logits", "hidden", "memory"]
    _write_graph(graph, arguments(2), shapes, inputs, outputs, path)
    _check_graph(graph, arguments(3), path)


def _write_graph(
    graph: nn.Module, example: Any, shapes: Any, inputs: list[str], outputs: list[str], path: Path
) -> None:
    names = ("torch.onnx", "torch.onnx._internal.exporter._registration", "onnxscript")
    levels = {name: logging.getLogger(name).level for name in names}
    try:
        for name in names:
            logging.getLogger(name).setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                graph.eval(),
                example,
                dynamo=True,
                dynamic_shapes=shapes,
                input_names=inputs,
                output_names=outputs,
                opset_version=OPSET,
                verbose=False,
            )
            assert program is not None
            weights = sum(tensor.nbytes for tensor in graph.state_dict().values())
            program.save(path, external_data=weights > MOST_BYTES)
    except OSError:
        raise
    except Exception as error:  # whatever an edited network does that a graph cannot
        reason = first_line(error.__cause__ if isinstance(error.__cause__, Exception) else error)
        raise TrainingError(f"torch.onnx cannot trace the network as {path.name} ({reason}).") from error
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _check_graph(graph: nn.Module, arguments: Any, path: Path) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    try:
        session = onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
        flat = [tensor for each in arguments for tensor in (each if isinstance(each, list) else [each])]
        feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), flat, strict=True)}
        outputs = session.run(None, feeds)
    except Exception as error:  # onnxruntime's errors have no common base
        reason = first_line(error)
        raise TrainingError(f"onnxruntime cannot run {path.name} as it was exported ({reason}).") from error
    expected = graph(*arguments)
    for ours, theirs in zip(expected if isinstance(expected, tuple) else (expected,), outputs, strict=True):
        known = ours.numpy()
        largest = max(1.0, float(np.abs(known).max(initial=0.0)))
        if known.shape != theirs.shape or not np.abs(known - theirs).max(initial=0.0) <= TOLERANCE * largest:
            raise TrainingError(
                f"{path.name} computes something else than the network: it has a branch or a loop in Python that"
                " depends on its input, which a graph does not keep; write it with tensor operations."
            )
