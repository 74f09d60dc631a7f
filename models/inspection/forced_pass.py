"""One teacher-forced pass over one sentence: attention maps, logits, a worked softmax row, and output steps. Everything
runs on the explicit attention path, so that no number depends on what else is requested. `forced_batch` reads several
sentences in one pass, for word alignment and token probabilities."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from models.backends.torch.transformer_step import pad_rows
from models.decoding.logits_processors import log_probabilities
from models.decoding.options import TokenRules
from models.exactness import require_honoured
from models.inspection.results import Candidate, DecoderStep, WorkedRow
from models.inspection.selection import KINDS, AttentionKind, Head, Row, SelectionError, known_kinds, within
from models.inspection.word_alignment import HeadPlace
from models.networks.transformer import Attended, Capture, PassEnded, Transformer, TransformerConfig
from models.scoring import WINDOW, scores_of


@dataclass(frozen=True, slots=True)
class ForcedPass:
    """source [S], inputs [T]: ids read by encoder and decoder. maps: kind -> [H, Q, K] per layer, float32. logits
    [T, V] of the token after each input, float32. readable [S]: False for padding. worked: softmax row. On the CPU."""

    source: tuple[int, ...]
    inputs: tuple[int, ...]
    readable: Tensor
    maps: dict[AttentionKind, list[Tensor]]
    logits: Tensor
    worked: WorkedRow | None = None

    def valid(self, kind: str) -> Tensor:
        """Where a query may attend, [Q, K]."""
        if kind == "decoder":
            return torch.ones(len(self.inputs), len(self.inputs), dtype=torch.bool).tril()
        return self.readable.expand(len(self.source if kind == "encoder" else self.inputs), -1)


class NonFiniteOutput(ArithmeticError):
    """The network produced NaN or infinity."""


def require_finite(*shown: Tensor, logits: Tensor | None = None) -> None:
    """NonFiniteOutput unless all of `shown` is finite. Logits and log-probabilities may also be -inf."""
    sound = all(bool(torch.isfinite(values).all()) for values in shown)
    if not sound or (logits is not None and not bool((logits < torch.inf).all())):  # false of NaN too
        raise NonFiniteOutput("gives NaN or infinity, so its weights are broken; load a sound checkpoint of it")


def require_inspectable(network: Transformer) -> None:
    """Asserts that the explicit pass computes exactly what the network computes in use."""
    assert not network.training, "a network is looked into in evaluation mode: dropout would show"
    require_honoured(network)
    assert next(network.parameters()).dtype in (torch.float32, torch.float64), "and in fp32"


def resolve_head(head: Head, config: TransformerConfig, field: str) -> Head:
    """The head with numbers from 0. SelectionError names the valid range."""
    (kind,) = known_kinds([head.kind], field)
    layers = config.encoder_layers if kind == "encoder" else config.decoder_layers
    layer = within(head.layer, layers, f"{kind} layer", field)
    return Head(kind, layer, within(head.head, config.heads, "head", field))


def by_layer(masked: Iterable[Head], config: TransformerConfig) -> dict[str, Mapping[int, tuple[int, ...]]]:
    """kind -> layer -> distinct heads; all kinds are present."""
    found: dict[str, Mapping[int, tuple[int, ...]]] = {kind: {} for kind in KINDS}
    for head in dict.fromkeys(resolve_head(each, config, "masked") for each in masked):
        layers = found[head.kind]
        found[head.kind] = {**layers, head.layer: (*layers.get(head.layer, ()), head.head)}
    return found


def one_row(ids: Sequence[int], network: Transformer) -> Tensor:
    """[1, T] on the network's device."""
    return torch.tensor([list(ids)], dtype=torch.long, device=network.device)


@torch.inference_mode()
def forced_pass(
    network: Transformer,
    source: Sequence[int],
    inputs: Sequence[int],
    kinds: Sequence[str] = KINDS,
    *,
    masked: Sequence[Head] = (),
    row: Row | None = None,
) -> ForcedPass:
    """source: encoder ids; inputs: decoder ids with the start token first; of any length. masked: ablated heads, with
    context 0 before the output projection. row: a softmax row to work out. SelectionError for an unknown kind, layer,
    head or row; ValueError for empty inputs."""
    require_inspectable(network)
    if not inputs:
        raise ValueError("The decoder needs a token to start from: its input is empty.")
    wanted, without = known_kinds(kinds), by_layer(masked, network.config)
    asked = None if row is None else _resolved(row, network, len(source), len(inputs))
    captures = {k: Capture(without[k], asked.layer if asked and asked.kind == k else None) for k in KINDS}
    memory, readable = network.encode(one_row(source, network), captures["encoder"])
    features = network.decode(one_row(inputs, network), memory, readable, (captures["decoder"], captures["cross"]))
    depths = {"encoder": len(network.encoder)}
    try:
        maps = {
            kind: captures[kind].maps(range(depths.get(kind, len(network.decoder))))
            for kind in KINDS
            if kind in wanted or without[kind]
        }
    except ValueError as error:
        raise SelectionError(f"This network's attention cannot be shown: {error}.", "kinds") from error
    return ForcedPass(
        tuple(source),
        tuple(inputs),
        readable[0].cpu(),
        {kind: [weights[0].float().cpu() for weights in maps[kind]] for kind in wanted},
        network.project(features)[0].float().cpu(),
        None if asked is None else _worked(asked, network, captures[asked.kind].trace),
    )


def _resolved(row: Row, network: Transformer, source: int, inputs: int) -> Row:
    head = resolve_head(row, network.config, "row")
    count = source if head.kind == "encoder" else inputs
    return Row(head.kind, head.layer, head.head, within(row.row, count, "row", "row", f"this {head.kind} map"))


def _worked(row: Row, network: Transformer, trace: Attended | None) -> WorkedRow:
    assert trace is not None
    scores, head = trace.scores[0, row.head, row.row], row.head
    readable = torch.ones_like(scores, dtype=torch.bool)
    if trace.mask is not None:
        readable = trace.mask.expand(trace.scores.shape)[0, head, row.row]
    weights = trace.weights[0, head, row.row]
    scale = network.decoder[0].attention.scale
    numbers = scores.float().tolist(), readable.tolist(), weights.float().tolist()
    return WorkedRow(row.kind, row.layer, row.head, row.row, scale, *numbers)


@torch.inference_mode()
def forced_steps(logits: Tensor, outputs: Sequence[int], rules: TokenRules, top_k: int = 0) -> list[DecoderStep]:
    """logits [T, V] of the forced pass at the output tokens [T], under the token rules of decoding. The
    log-probabilities sum to the hypothesis' own; omit an end token written by `rules.forced_end`, which is free."""
    if len(logits) != len(outputs):
        raise ValueError(f"{len(logits)} rows of logits cannot tell of {len(outputs)} output tokens.")
    if not outputs:
        return []
    found = scores_of(log_probabilities(logits, rules), torch.tensor(list(outputs), device=logits.device), top_k)
    columns = (found.log_probabilities, found.ranks, found.entropies, found.tokens, found.token_log_probabilities)
    return [
        DecoderStep(logprob, rank, entropy, [Candidate(*c) for c in zip(*top, strict=True) if c[1] > -torch.inf])
        for logprob, rank, entropy, *top in zip(*(column.tolist() for column in columns), strict=True)
    ]


class ForcedSentence(NamedTuple):
    """source [S]: encoder ids; target [T + 1]: decoder ids, of which the first `given` are the prefix."""

    source: Sequence[int]
    target: Sequence[int]
    given: int


class BatchReading(NamedTuple):
    """Per sentence, on the CPU. maps: mean of the heads, [T, S], float64; nats: log-probabilities of the target tokens
    after the prefix. Either is empty if not requested."""

    maps: list[Tensor]
    nats: list[Tensor]


@torch.inference_mode()
def forced_batch(
    network: Transformer, sentences: Sequence[ForcedSentence], heads: Sequence[HeadPlace], rules: TokenRules | None
) -> BatchReading:
    """heads: averaged in the maps; empty: no maps. rules: the token rules of the probabilities; None: no probabilities.
    The numbers equal a pass over each sentence alone, up to the last bits (padding, fused kernels)."""
    require_inspectable(network)
    source = pad_rows([each.source for each in sentences], network.config.pad, network.device)
    inputs = pad_rows([each.target[:-1] for each in sentences], network.config.pad, network.device)
    memory, readable = network.encode(source)
    by_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        by_layer.setdefault(layer, []).append(head)
    capture, nats = Capture(layers=by_layer, last=max(by_layer) if rules is None else None), list[Tensor]()
    with contextlib.suppress(PassEnded):
        features = network.decode(inputs, memory, readable, (None, capture))
        nats = [] if rules is None else _log_probabilities(network, features, sentences, rules)
    capture.maps(by_layer)
    maps = list[Tensor]()
    if heads:
        total = [weights[:, by_layer[layer]].double().sum(dim=1) for layer, weights in capture.weights.items()]
        mean = (torch.stack(total).sum(dim=0) / len(heads)).cpu()
        maps = [mean[i, : len(s.target) - 1, : len(s.source)] for i, s in enumerate(sentences)]
    return BatchReading(maps, nats)


def _log_probabilities(
    network: Transformer, features: Tensor, sentences: Sequence[ForcedSentence], rules: TokenRules
) -> list[Tensor]:
    """features [B, T, C] -> as `BatchReading.nats`."""
    counted = [(i, len(each.target) - each.given) for i, each in enumerate(sentences)]
    rows = torch.cat([features[i, sentences[i].given - 1 :][:count] for i, count in counted])
    came = [token for each in sentences for token in each.target[each.given :]]
    outputs = torch.tensor(came, dtype=torch.long, device=features.device)
    windows = zip(torch.split(rows, WINDOW), torch.split(outputs, WINDOW), strict=True)
    found = [log_probabilities(network.project(some), rules).gather(1, tokens[:, None]) for some, tokens in windows]
    return list(torch.split(torch.cat(found)[:, 0].cpu(), [count for _, count in counted]))
