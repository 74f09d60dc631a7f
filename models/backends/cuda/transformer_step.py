"""The Transformer's decode step in the kernels of `triton_kernels`, over the caches of `kv_cache`. Attention reads each
row's length on the device, so a recorded graph serves sequences of any length: one graph per number of rows.

A decoder layer is eight launches: the projection of queries, keys and values, self-attention, its output map, the query
of cross-attention, cross-attention, its output map, and the two feed-forward maps. Layer norms belong to the map that
reads them, residual sums and activations to the map that makes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from models.backends.cuda.launch import Launch, Launcher
from models.backends.native.coverage import transformer_difference
from models.backends.torch.cuda_graph import StepShape, round_up
from models.backends.torch.kv_cache import TransformerState
from models.backends.torch.transformer_step import EagerTransformer
from models.interface import Prompt
from models.networks.transformer import Activation, MultiHeadAttention, NormPlacement, Transformer, TransformerConfig

HEAD_WIDTHS = (16, 32, 64, 128)
ACTIVATIONS = {"relu": 1, "gelu": 2, "silu": 3}  # as in `triton_kernels.linear`
MAX_GROUP = 16  # rows that share one reading of their source; larger beams read it once per row
POSITIONS = 64  # of a cache that a program reads at once
CHOICE_BLOCK = 2048  # logits that a program reads at once; with 4096, drawing needs more registers than there are
COPIED_POSITIONS = 8  # of a cache that a program copies
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def kernel_difference(network: Transformer) -> str | None:
    """Why the kernels cannot compute the network; None if they can."""
    if changed := transformer_difference(network):
        return changed
    if (width := network.config.head_width) not in HEAD_WIDTHS:
        return f"its head width is {width}, and the CUDA kernels take {', '.join(map(str, HEAD_WIDTHS))}"
    return None


@dataclass(frozen=True, slots=True)
class Tile:
    """The part of a linear map that one program computes: rows x columns, reading `inner` inputs at once, in a pipeline
    of `stages`. span: inputs that a layer norm's statistics read at once."""

    rows: int
    columns: int
    inner: int
    stages: int
    span: int


FEW_ROWS = 64
FEW, FEW_OF_MANY_COLUMNS = Tile(16, 16, 256, 4, 512), Tile(16, 64, 128, 4, 512)
MANY, MANY_OF_MANY_COLUMNS = Tile(64, 64, 64, 4, 128), Tile(64, 128, 64, 3, 128)
MANY_COLUMNS = 8192  # of a vocabulary


def tile(rows: int, columns: int, element: int = 2) -> Tile:
    """Small tiles for few rows, where reading the weights takes all the time and more programs read faster. A row has
    the same sums in the same order in any batch of up to FEW_ROWS rows. element: bytes of a number; fp32 reads half as
    many at once, for the shared memory of small GPUs."""
    if rows <= FEW_ROWS:
        found = FEW if columns < MANY_COLUMNS else FEW_OF_MANY_COLUMNS
    else:
        found = MANY if columns < MANY_COLUMNS else MANY_OF_MANY_COLUMNS
    return found if element == 2 else replace(found, inner=found.inner // 2)


@dataclass(frozen=True, slots=True)
class Norm:
    """A layer norm before a map. keep: whether its result is needed as a residual, as in post-norm networks."""

    weight: Tensor
    bias: Tensor
    epsilon: float
    keep: bool

    @classmethod
    def of(cls, module: nn.Module, *, keep: bool) -> Norm | None:
        """None for a module that is no layer norm."""
        return cls(module.weight, module.bias, module.eps, keep) if isinstance(module, nn.LayerNorm) else None


class KernelTransformer(EagerTransformer):
    """A `Recordable` in kernels. launch: runs them."""

    def __init__(self, network: Transformer, launch: Launcher) -> None:
        """ValueError for a network that the kernels do not compute."""
        if changed := kernel_difference(network):
            raise ValueError(changed)
        super().__init__(network)
        self.launch, self.groups = launch, True

    def shape(self, state: TransformerState, rows: int, group: int) -> StepShape:
        """The lengths are those of the slots: one shape for sequences of any length."""
        group = group if group <= MAX_GROUP and rows % group == 0 else 1
        return StepShape(rows, group, state.target_length, state.source[0].both.size(1))

    @torch.inference_mode()
    def advance(self, state: TransformerState, tokens: Tensor, shape: StepShape) -> Tensor:
        """The device part of a step, [rows, V], in launches alone. Free rows stay finite and within their slots."""
        config, rows, network = self.config, shape.rows, self.network
        positions = torch.empty(rows, dtype=torch.int32, device=self.device)
        x = self._empty(rows, config.d_model)
        tables = network.target_embedding.weight, state.position_table
        sizes = float(network.embedding_scale), state.target_length, config.d_model
        arguments = tokens.contiguous(), state.lengths, state.positions, *tables, positions, x, *sizes
        self.launch(Launch("embed", (rows, 1, 1), arguments, (("BLOCK", 512),)))
        norm: Norm | None = None  # the one that the next map reads through
        before = config.norm == "pre"
        for number, layer in enumerate(network.decoder):
            own, source, wide = layer.attention, layer.cross_attention, layer.feed_forward
            norm = Norm.of(layer.around_attention.norm, keep=False) if before else norm
            qkv, x = self._linear(x, own.projection.weight, own.projection.bias, norm)
            context = self._attend_own(qkv, state, number, positions, own)
            x, _ = self._linear(context, own.output.weight, own.output.bias, residual=x)
            norm = Norm.of((layer.around_cross if before else layer.around_attention).norm, keep=not before)
            inner, bias = source.inner, source.projection.bias
            query, x = self._linear(x, source.projection.weight[:inner], None if bias is None else bias[:inner], norm)
            context = self._attend_source(query, state, number, shape.group, source)
            x, _ = self._linear(context, source.output.weight, source.output.bias, residual=x)
            norm = Norm.of((layer.around_feed_forward if before else layer.around_cross).norm, keep=not before)
            activation = ACTIVATIONS[config.activation]
            hidden, x = self._linear(x, wide.widen.weight, wide.widen.bias, norm, activation=activation)
            x, _ = self._linear(hidden, wide.narrow.weight, wide.narrow.bias, residual=x)
            norm = None if before else Norm.of(layer.around_feed_forward.norm, keep=True)
        if norm is not None:
            norm = Norm(norm.weight, norm.bias, norm.epsilon, keep=False)
        norm = Norm.of(network.decoder_norm, keep=False) or norm
        logits = torch.empty(rows, len(network.output_weight), dtype=torch.float32, device=self.device)
        return self._linear(x, network.output_weight, network.output_bias, norm, out=logits)[0]

    @torch.inference_mode()
    def reorder(self, state: TransformerState, parents: Tensor, shape: StepShape) -> None:
        """In one launch per layer if the rows of a beam are a block, else in two."""
        rows, slot_length, width = shape.rows, state.target_length, state.own[0].both.size(2)
        steps = -(-slot_length // COPIED_POSITIONS)
        if shape.group > 1:
            members = round_up(shape.group)
            constants = ("ROWS", members), ("POSITIONS", COPIED_POSITIONS), ("COLUMNS", max(64, 512 // members))
            for layer in state.own:
                arguments = layer.both, parents, state.lengths, slot_length, shape.group, width
                self.launch(Launch("reorder", (rows // shape.group, steps, 1), arguments, constants))
            return
        aside = torch.empty(rows, slot_length, width, dtype=self.dtype, device=self.device)
        for layer in state.own:
            for back in (0, 1):
                sizes = ("BACK", back), ("POSITIONS", COPIED_POSITIONS), ("COLUMNS", 512)
                moved = layer.both, aside, parents, state.lengths, slot_length, width
                self.launch(Launch("move", (rows, steps, 1), moved, sizes))

    @torch.inference_mode()
    def choose(
        self,
        logits: Tensor,
        suppressed: Tensor,
        fed: Tensor,
        written: Tensor,
        options: Tensor,
        uniform: Tensor,
        *,
        renormalise: bool,
        draw: bool,
    ) -> Tensor:
        """See `choice_launch`. Returns its results."""
        results = torch.empty(2, len(logits), dtype=torch.float32, device=self.device)
        tables = logits, suppressed, fed, written, options, uniform, results
        self.launch(choice_launch(*tables, renormalise=renormalise, draw=draw))
        return results

    @torch.inference_mode()
    def continue_beams(
        self,
        logits: Tensor,
        suppressed: Tensor,
        written: Tensor,
        rows: Tensor,
        late: Tensor,
        columns: tuple[Tensor, Tensor, Tensor],
        width: int,
        *,
        end: int | None,
        renormalise: bool,
    ) -> Tensor:
        """The best 2·width continuations of each beam, [3, G, 2·width], of which the first `width` continue: see
        `choice_kernels.continue_beams`. rows [2, G·width]: to read and to write; late [G, 2·width]; columns: totals
        (float64), the next tokens and the parents by row, and one entry more, in which missing hypotheses are written;
        logits, suppressed and written as in `choice_launch`."""
        (count, vocabulary), beams = logits.shape, rows.size(1) // width
        best = min(2 * width, vocabulary)
        kept = 2 * width
        values = torch.empty(count, best, dtype=torch.float32, device=self.device)
        tokens = torch.empty(count, best, dtype=torch.long, device=self.device)
        results = torch.empty(3, beams, kept, dtype=torch.float32, device=self.device)
        arguments = logits, suppressed, written, values, tokens, vocabulary, len(suppressed), best
        constants = ("RENORMALISE", int(renormalise)), ("BLOCK", CHOICE_BLOCK)
        self.launch(Launch("top_tokens", (count, 1, 1), arguments, constants, warps=16))
        sizes = len(columns[0]) - 1, width, best, kept, -1 if end is None else end, beams
        powers = ("MEMBERS", round_up(width)), ("CANDIDATES", round_up(best))
        self.launch(
            Launch(
                "continue_beams",
                (beams, 1, 1),
                (values, tokens, *rows.unbind(0), late, *columns, results, *sizes),
                powers,
            )
        )
        return results

    def _empty(self, rows: int, columns: int) -> Tensor:
        return torch.empty(rows, columns, dtype=self.dtype, device=self.device)

    def _linear(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        norm: Norm | None = None,
        *,
        residual: Tensor | None = None,
        activation: int = 0,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The result, and x after the norm if the norm keeps it, else x."""
        (rows, inputs), outputs = x.shape, len(weight)
        out = self._empty(rows, outputs) if out is None else out
        keep = norm is not None and norm.keep
        kept = torch.empty_like(x) if keep else x
        shape = tile(rows, outputs, x.element_size())
        constants = {
            "NORM": norm is not None,
            "KEEP": keep,
            "BIAS": bias is not None,
            "RESIDUAL": residual is not None,
            "ACTIVATION": activation,
            "ROWS": shape.rows,
            "COLUMNS": shape.columns,
            "INNER": shape.inner,
            "SPAN": shape.span,
        }
        grid = -(-outputs // shape.columns), -(-rows // shape.rows), 1
        # what a constant switches off is never read: any tensor stands for it
        vectors = *((norm.weight, norm.bias) if norm else (x, x)), x if residual is None else residual
        epsilon = norm.epsilon if norm else 0.0
        arguments = x, weight, x if bias is None else bias, *vectors, kept, out, rows, outputs, inputs, epsilon
        fixed = tuple((name, int(value)) for name, value in constants.items())
        self.launch(Launch("linear", grid, arguments, fixed, stages=shape.stages))
        return out, kept

    def _attend_own(
        self, qkv: Tensor, state: TransformerState, layer: int, positions: Tensor, module: MultiHeadAttention
    ) -> Tensor:
        context = self._empty(len(qkv), module.inner)
        sizes = float(module.scale), state.target_length, module.heads
        arguments = qkv, state.own[layer].both, positions, context, *sizes
        constants = ("D", module.head_width), ("BLOCK", POSITIONS)
        self.launch(Launch("attend_own", (len(qkv), module.heads, 1), arguments, constants))
        return context

    def _attend_source(
        self, query: Tensor, state: TransformerState, layer: int, group: int, module: MultiHeadAttention
    ) -> Tensor:
        context, cache = torch.empty_like(query), state.source[layer].both
        sizes = float(module.scale), cache.size(1), module.heads, group
        arguments = query, cache, state.source_lengths, context, *sizes
        members = round_up(group)
        constants = ("D", module.head_width), ("ROWS", members), ("BLOCK", min(16, POSITIONS // members))
        self.launch(Launch("attend_source", (len(query) // group, module.heads, 1), arguments, constants))
        return context


def choice_launch(
    logits: Tensor,
    suppressed: Tensor,
    fed: Tensor,
    written: Tensor,
    options: Tensor,
    uniform: Tensor,
    results: Tensor,
    *,
    renormalise: bool,
    draw: bool,
) -> Launch:
    """The choice of a token for each row of logits [B, V], float32, which are overwritten: see `choice_kernels.choose`.
    suppressed [N]: token ids. options: the columns of `choice_kernels.OPTIONS`, int64 [.., >= B], of which some hold
    float64, as `models.backends.torch.token_choice.draw` reads them; a row of temperature 0 takes the likeliest token.
    uniform [>= B, L], float64: read at written [B], tokens written so far. results [2, B], float32: tokens and their
    log-probabilities."""
    rows, vocabulary = logits.shape
    whole = 2.0 ** (62 - vocabulary.bit_length())  # so that a sum over the vocabulary stays within int64
    arguments = logits, suppressed, fed, written, options, uniform, results
    sizes = vocabulary, len(suppressed), uniform.size(1), rows, options.size(1), whole
    constants = ("RENORMALISE", int(renormalise)), ("DRAW", int(draw)), ("BLOCK", CHOICE_BLOCK)
    return Launch("choose", (rows, 1, 1), (*arguments, *sizes), constants, warps=16)


def launches(
    network: Transformer, rows: int, group: int = 1, lengths: tuple[int, int] = (32, 32), *, choices: bool = False
) -> list[Launch]:
    """The launches of a step, which are recorded and not run. lengths: of the slots, target and source. choices: also
    those of a greedy choice, of a draw, of beams of `group` and of their reorder."""
    recorded: list[Launch] = []
    stepped = KernelTransformer(network, recorded.append)
    state = stepped.allocate(rows, lengths[1], lengths[0])
    stepped.prefill(state, [0], [Prompt((1,), (1,))])
    shape, ids = stepped.shape(state, rows, group), torch.zeros(rows + 1, dtype=torch.long, device=network.device)
    logits = stepped.advance(state, ids[:rows], shape)
    if choices:
        floats, suppressed = ids.double(), ids[:1]
        for renormalise in (True, False):
            for draw in (False, True):
                tables = logits, suppressed, ids, ids, ids[None], floats[:, None]
                stepped.choose(*tables, renormalise=renormalise, draw=draw)
            if group > 1:
                late = torch.zeros(rows // group, 2 * group, dtype=torch.bool, device=network.device)
                beams = logits, suppressed, ids, torch.stack([ids[:rows]] * 2), late, (floats, ids, ids), group
                stepped.continue_beams(*beams, end=None, renormalise=renormalise)
        stepped.reorder(state, ids[:rows], shape)
    return recorded


def common_launches(dtypes: Iterable[str]) -> Iterator[Launch]:
    """One launch for each kernel that networks of common forms need: heads of 64, either placement of norms, with each
    activation and with or without biases, and beams of up to 16."""
    forms: tuple[tuple[NormPlacement, bool, Activation], ...] = (
        *(("post", True, "relu"), ("pre", True, "relu"), ("pre", True, "gelu"), ("post", True, "silu")),
        *(("post", False, "relu"), ("pre", False, "relu")),
    )
    for dtype in dtypes:
        for norm, bias, activation in forms:
            config = TransformerConfig(
                source_vocabulary=16,
                target_vocabulary=MANY_COLUMNS,
                d_model=128,
                heads=2,
                d_ff=512,
                encoder_layers=1,
                decoder_layers=2,
                norm=norm,
                activation=activation,
                attention_bias=bias,
                output_bias=activation == "silu",
                tied="output",
            )
            network = Transformer(config).to(DTYPES[dtype]).eval()
            for rows in (1, 2 * FEW_ROWS):
                yield from launches(network, rows, choices=True)
            for group in (2, 3, 4, 5, 6, 8, 10, 16):
                yield from launches(network, group, group, choices=True)
