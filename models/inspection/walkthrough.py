"""A forward pass step by step, for one position of one layer and one head. Hooks record the inputs and outputs of the
modules during a normal pass, so the numbers are the network's own. A step has its formula only where the code that
computes it is as written (`KnownParts`). Where the code was edited, a step whose numbers no module reads or returns is
left out."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import cast

import torch
from msgspec.structs import replace
from torch import Tensor, nn

from models.decoding.logits_processors import log_probabilities
from models.decoding.options import TokenRules
from models.exactness import (
    FUNCTIONS,
    HOOKS,
    LAYERS,
    as_written,
    difference,
    differences,
    differences_everywhere,
    is_known,
    module_difference,
)
from models.inspection.forced_pass import one_row, require_finite, require_inspectable
from models.inspection.results import Walkthrough, WalkthroughStep
from models.inspection.selection import KINDS, SelectionError, WalkthroughFocus, within
from models.networks.transformer import Attended, Capture, FeedForward, MultiHeadAttention, Transformer

STEPS_WITH_MINUS_INFINITY = ("masked scores", "logits")
FIRST, FINAL, EMBEDDING = "(first layer)", "(final norm)", "(embedding)"  # keys beside the names of the layer's modules


@torch.inference_mode()
def walkthrough(
    network: Transformer, source: Sequence[int], inputs: Sequence[int], focus: WalkthroughFocus, rules: TokenRules
) -> Walkthrough:
    """source: encoder ids; inputs: decoder ids. Records the `focus.most` largest logits, and probabilities under
    `rules`. Omits steps an edited layer lacks. SelectionError for an unknown layer, head, position; NonFiniteOutput."""
    require_inspectable(network)
    if focus.most < 1 or focus.most_keys < 1:
        raise SelectionError("At least one value must be told of each vector.", "most")
    encoder, ids = focus.side == "encoder", source if focus.side == "encoder" else inputs
    focus = _resolved(network, focus, len(ids))
    known = KnownParts(network)
    captures = {kind: Capture(traced=focus.layer) for kind in KINDS}
    with Recorder(network, focus, captures[focus.side], len(ids)) as recorder:
        if encoder:
            recorder.running = True
        memory, readable = network.encode(one_row(source, network), captures["encoder"])
        recorder.running = not encoder
        features = network.decode(one_row(inputs, network), memory, readable, (captures["decoder"], captures["cross"]))
    walk = Walk(focus, network, known, recorder.seen())
    walk.embedding(ids[focus.position])
    walk.attention("self-attention", "attention", "around_attention", captures[focus.side])
    if not encoder:
        walk.attention("cross-attention", "cross_attention", "around_cross", captures["cross"])
    walk.feed_forward()
    if focus.layer == len(walk.layers) - 1:
        walk.final_norm()
        if not encoder:
            walk.output(features, rules)
    return Walkthrough(focus.layer, focus.head, focus.position, tuple(walk.steps), known.edits)


def _resolved(network: Transformer, focus: WalkthroughFocus, length: int) -> WalkthroughFocus:
    config, side = network.config, focus.side
    if side not in ("encoder", "decoder"):
        raise SelectionError(f"There is no side {side!r}; the sides are encoder, decoder.", "side")
    depth = len(network.encoder if side == "encoder" else network.decoder)
    return replace(
        focus,
        layer=within(focus.layer, depth, f"{side} layer", "layer"),
        head=within(focus.head, config.heads, "head", "head"),
        position=within(focus.position, length, "position", "position", f"the {side}'s input"),
    )


class Recorder:
    """Records what the modules of one layer read and return, with its side's first layer, final norm and embedding.

    running: whether the side's pass is under way. A module that runs twice in it (one that two layers share) counts for
    the focused layer alone; one that runs twice there has no single value, and is left out."""

    def __init__(self, network: Transformer, focus: WalkthroughFocus, capture: Capture, length: int) -> None:
        self.running = False
        self._focus, self._capture, self._length = focus, capture, length
        self._calls: dict[str, list[tuple[Tensor, Tensor]]] = {}
        encoder = focus.side == "encoder"
        layers, final = (network.encoder, network.encoder_norm) if encoder else (network.decoder, network.decoder_norm)
        embedding = network.source_embedding if encoder else network.target_embedding
        around = {FIRST: layers[0], FINAL: final, EMBEDDING: embedding}
        self._modules: dict[str, nn.Module] = {**dict(layers[focus.layer].named_modules()), **around}
        self._hooks = contextlib.ExitStack()

    def __enter__(self) -> Recorder:
        for name, module in self._modules.items():
            self._hooks.enter_context(module.register_forward_hook(partial(self._record, name)))
        return self

    def __exit__(self, *_: object) -> None:
        self._hooks.close()

    def _record(self, name: str, _: nn.Module, read: tuple[object, ...], given: object) -> None:
        in_layer = name not in (FIRST, FINAL, EMBEDDING)
        if not self.running or (in_layer and self._capture.layer != self._focus.layer) or not read:
            return
        first = read[0]  # a parametrization reads nothing, and an edited module may read and return anything
        if isinstance(first, Tensor) and isinstance(given, Tensor) and self._fits(first, 2) and self._fits(given, 3):
            self._calls.setdefault(name, []).append((first, given))

    def _fits(self, x: Tensor, least: int) -> bool:
        """Whether x is [1, T] or [1, T, C]."""
        return least <= x.dim() <= 3 and x.shape[:2] == (1, self._length)

    def seen(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Name -> input and output; of the first layer the first call."""
        return {name: calls[0] for name, calls in self._calls.items() if len(calls) == 1 or name == FIRST}


class Walk:
    """Records steps. seen: module name in the layer ("": the layer) -> input and output. part: of the next steps."""

    def __init__(
        self,
        focus: WalkthroughFocus,
        network: Transformer,
        known: KnownParts,
        seen: Mapping[str, tuple[Tensor, Tensor]],
    ) -> None:
        self.focus, self.network, self.known, self.seen = focus, network, known, seen
        self.encoder = focus.side == "encoder"
        self.layers = network.encoder if self.encoder else network.decoder
        self.layer: nn.Module = self.layers[focus.layer]
        self.steps: list[WalkthroughStep] = []
        self.part = "embedding"
        self.left: Tensor | None = None  # what the last step x' was shown of, [1, T, C]
        stack = ("encode",) if self.encoder else ("decode", "decode_over")
        self.stack_known = known.code("", *stack)
        self.order_known = known.code(self._full(""), "forward")  # of the layer's sublayers

    def _full(self, name: str) -> str:
        """The name in the network of a module of the layer."""
        return ".".join(filter(None, (self.focus.side, str(self.focus.layer), name)))

    def vector(self, name: str, formula: str | None, x: Tensor) -> None:
        """x [n]: at the recorded position. formula: None if the code that computes x was edited."""
        self._record(name, formula, x, x[: self.focus.most])

    def position(self, name: str, formula: str | None, x: Tensor, edited: bool = False) -> None:
        """x [1, T, C]: takes the vector of the recorded position. edited: also with a formula."""
        vector = x[0, self.focus.position]
        self._record(name, formula, vector, vector[: self.focus.most], edited=edited)

    def keys(self, name: str, formula: str | None, x: Tensor) -> None:
        """x [K] or [K, n]: a number or a vector per key."""
        shown = x[: self.focus.most_keys]
        self._record(name, formula, x, shown[:, : self.focus.most] if x.dim() > 1 else shown)

    def largest(self, name: str, formula: str | None, x: Tensor) -> None:
        """x [V]: records the largest entries."""
        values, places = x.double().topk(min(self.focus.most, len(x)))
        self._record(name, formula, x, values, tuple(places.tolist()))

    def _record(
        self,
        name: str,
        formula: str | None,
        x: Tensor,
        shown: Tensor,
        indices: tuple[int, ...] | None = None,
        edited: bool = False,
    ) -> None:
        """NonFiniteOutput for NaN or infinity. -inf in masked scores and logits becomes None."""
        if name in STEPS_WITH_MINUS_INFINITY:
            require_finite(logits=shown)
        else:
            require_finite(shown)
        numbers = shown.double().view(len(shown), -1).tolist()
        rows = [tuple(number if number > -math.inf else None for number in row) for row in numbers]
        values = tuple(rows) if x.dim() > 1 else tuple(row[0] for row in rows)
        edited = edited or formula is None
        self.steps.append(WalkthroughStep(self.part, name, formula, tuple(x.shape), values, indices, edited=edited))

    def embedding(self, token: int) -> None:
        """The embedding steps, up to the input of the first layer; and the input of the focused layer."""
        network, known, at, layer = self.network, self.known, self.focus.position, self.focus.layer
        table = "source_embedding" if self.encoder else "target_embedding"
        embeds = self.stack_known and known.code("", "embed") and known.part("embedding_dropout")
        placed = embeds and known.code("", "first_positions", "position_vectors")
        if EMBEDDING in self.seen:
            row, scale = self.seen[EMBEDDING][1][0, at], network.embedding_scale
            self.vector("token embedding", f"e = E[{token}]" if self.stack_known and known.part(table) else None, row)
            if embeds:
                self.vector("scale", f"s = {scale:.6g} · e", row * scale)
        if placed:
            self.vector("position", f"p = PE[{at}]", network.position_vectors(at + 1)[at])
        if embeds and FIRST in self.seen:
            summed = placed and EMBEDDING in self.seen and known.code(f"{self.focus.side}.0")
            self.position("sum", "x = s + p" if summed else None, self.seen[FIRST][0])
        if (layer or not embeds) and "" in self.seen:
            self.part = "layer input"
            below = layer and self.stack_known and known.code(self._full(""))
            self.position("layer input", f"x, as layer {layer - 1} left it" if below else None, self.seen[""][0])

    def attention(self, part: str, name: str, around: str, capture: Capture) -> None:
        entered, known, full = self._enter(part, around), self.known, self._full(name)
        if capture.trace is not None and name in self.seen:
            self._head(name, capture.trace, entered)
            if f"{name}.output" in self.seen:
                read, given = self.seen[f"{name}.output"]
                joined = f"[c_0 … c_{self.network.config.heads - 1}]"
                attends = known.code(full, "attend", "attend_explicit")
                self.position("heads concatenated", joined if attends else None, read)
                bias = "" if getattr(self.layer.get_submodule(f"{name}.output"), "bias", None) is None else " + b_O"
                mapped = attends and known.part(f"{full}.output")
                self.position("output projection", f"o = {joined}·W_O{bias}" if mapped else None, given)
        self._leave(around, entered is not None and self._passes_on(name, f"{name}.output"))

    def feed_forward(self) -> None:
        around, known, full = "around_feed_forward", self.known, self._full("feed_forward")
        entered, activation = self._enter("feed-forward", around), self.network.config.activation
        forward = known.code(full, "forward") and known.activation(full, activation)
        if "feed_forward.widen" in self.seen and "feed_forward.narrow" in self.seen:
            (_, wide), (active, narrow) = self.seen["feed_forward.widen"], self.seen["feed_forward.narrow"]
            read = self.seen["feed_forward.widen"][0]
            reads = "feed_forward" in self.seen and torch.equal(self.seen["feed_forward"][0], read)
            widens = entered and reads and known.code(full) and known.part(f"{full}.widen")
            self.position("widen", f"w = {entered}·W_1 + b_1" if widens else None, wide)
            activates = forward and known.part(f"{full}.dropout")
            self.position("activation", f"a = {activation}(w)" if activates else None, active)
            self.position("narrow", "o = a·W_2 + b_2" if known.part(f"{full}.narrow") else None, narrow)
        self._leave(around, entered is not None and self._passes_on("feed_forward", "feed_forward.narrow"))

    def final_norm(self) -> None:
        self.part, name = "output", f"{self.focus.side}_norm"
        if FINAL in self.seen and not isinstance(getattr(self.network, name), nn.Identity):
            self._norm("final norm", "x'", "x" if self.stack_known else None, name, self.seen[FINAL][1])

    def output(self, features: Tensor, rules: TokenRules) -> None:
        """features [1, T, C]: what the decoder left."""
        network, known = self.network, self.known
        logits = network.project(features)[0, self.focus.position]
        bias = "" if network.output_bias is None else " + b"
        matrix = "target_embedding" if network.output is None else "output"
        shown = self.left is not None and torch.equal(self.left, features)
        projects = shown and known.code("", "project") and known.part(matrix)
        self.largest("logits", f"l = x'·Uᵀ{bias}" if projects else None, logits)
        probabilities = log_probabilities(logits[None], rules).double().exp()[0]
        self.largest("probabilities", "exp(l) / sum(exp(l)), as decoding counts them", probabilities)

    def _enter(self, part: str, around: str) -> str | None:
        """Records the norm before a pre-norm sublayer. Returns the symbol of the sublayer's input; None if the code
        that hands it over was edited."""
        self.part, norm = part, f"{around}.norm"
        known = self.order_known and self.known.code(self._full(around), "forward")
        if not self._before(around):
            return "x" if known else None
        if norm in self.seen:
            self._norm("norm", "n", "x" if known else None, self._full(norm), self.seen[norm][1])
        return "n" if known else None

    def _passes_on(self, sublayer: str, last: str) -> bool:
        """Whether a sublayer returned what a module inside it returned, in this pass."""
        return sublayer in self.seen and last in self.seen and torch.equal(self.seen[sublayer][1], self.seen[last][1])

    def _leave(self, around: str, known: bool) -> None:
        """Records the residual connection, and the norm after it. known: x and o are as shown."""
        norm, known = f"{around}.norm", known and self.known.part(f"{self._full(around)}.dropout")
        if around not in self.seen or norm not in self.seen:
            return
        summed, normed = self.seen[norm]
        formula = "r = x + o" if known else None
        if self._before(around):
            self.position("residual", formula, self.seen[around][1])
        else:
            self.position("residual", formula if self.known.goes_by_its_class(self._full(norm)) else None, summed)
            runs = self.known.code(self._full(around), "forward")
            self._norm("norm", "x'", "r" if runs else None, self._full(norm), normed)

    def _before(self, around: str) -> bool:
        """Whether a sublayer is pre-norm."""
        return bool(getattr(getattr(self.layer, around, None), "before", False))

    def _norm(self, name: str, symbol: str, argument: str | None, module: str, x: Tensor) -> None:
        """module: its name in the network. argument: None if the code that hands it over was edited."""
        kind = type(self.network.get_submodule(module)).__name__
        named = argument is not None and self.known.goes_by_its_class(module)
        if symbol == "x'":
            self.left = x
        self.position(name, f"{symbol} = {kind}({argument})" if named else None, x, not self.known.part(module))

    def _head(self, name: str, trace: Attended, entered: str | None) -> None:
        known, full, head, at = self.known, self._full(name), self.focus.head, self.focus.position
        parts = (trace.query, trace.key, trace.value, trace.scores, trace.weights, trace.context)
        if any(part.shape[:2] != (1, self.network.config.heads) for part in parts):
            return  # heads of an edited attention may share their keys; then no single head has any to show
        within_self = name == "attention"
        attends = known.code(full, "forward", "split", "attend", "attend_explicit")
        projects = attends and known.part(f"{full}.projection")
        queries = entered is not None and projects and (not within_self or known.code(full, "query_key_value"))
        over = projects and self.stack_known and known.code(full, "key_value") and known.code("", "source_key_values")
        keys, read = (queries, entered) if within_self else (over, "m")
        explicit = known.code(full, "attend_explicit")
        module = self.layer.get_submodule(name)
        bias = " + b" if projects and cast(MultiHeadAttention, module).projection.bias is not None else ""
        scores = trace.scores[0, head, at]
        self.vector("query", f"q = {entered}·W_Q{bias}, head {head}" if queries else None, trace.query[0, head, at])
        for letter, kind, x in (("K", "keys", trace.key), ("V", "values", trace.value)):
            formula = f"{letter} = {read}·W_{letter}{bias}, head {head}, a row for each key"
            self.keys(kind, formula if keys else None, x[0, head])
        scale = getattr(module, "scale", None)
        self.keys("scores", f"s = {scale:.6g} · q·Kᵀ" if explicit else None, scores)
        if explicit:
            masked = scores
            if trace.mask is not None:
                masked = scores.masked_fill(~trace.mask.expand(trace.scores.shape)[0, head, at], -torch.inf)
            self.keys("masked scores", "s where the key may be read, otherwise -inf", masked)
        self.keys("softmax", "a = exp(s) / sum(exp(s))" if explicit else None, trace.weights[0, head, at])
        self.vector("context", "c = a·V" if explicit else None, trace.context[0, head, at])


class KnownParts:
    """Which parts of a Transformer are exactly as `models.networks` was written: a formula can be claimed for these
    alone, since an edited part computes what only its code says. A snapshot, taken while no hook of an inspection is on
    the network. edits: clauses that name each part that
    differs, such as "FeedForward.forward was edited"; () for an unmodified network."""

    def __init__(self, network: Transformer) -> None:
        plain = as_written(network, Transformer)
        self._modules = dict(network.named_modules(remove_duplicate=False))
        self._plain = dict(plain.named_modules(remove_duplicate=False))
        self._patched, self._is_known = any(differences_everywhere()), cache(is_known)
        found = [*differences(network, plain)]
        for name, module in self._modules.items():
            if isinstance(module, FeedForward) and not self._activates(module, network.config.activation):
                found.append(f"{name} has another activation")
        # A constructor differs wherever a helper of it was edited; the modules that it made say more.
        self.edits = tuple(dict.fromkeys(edit for edit in found if ".__init__ " not in edit)) or tuple(found)

    def part(self, name: str) -> bool:
        """Whether a module, all modules inside and their code are as written."""
        module, plain = self._modules.get(name), self._plain.get(name)
        return module is not None and plain is not None and difference(module, plain) is None

    def code(self, name: str, *methods: str) -> bool:
        """Whether these methods of a module and the module itself, without the modules inside, are as written.
        name: "" for the network."""
        module, plain = self._modules.get(name), self._plain.get(name)
        if module is None or plain is None or self._patched or type(module).__call__ is not nn.Module.__call__:
            return False
        return module_difference(module, plain) is None and (not methods or self._is_known(module, *methods))

    def activation(self, name: str, kind: str) -> bool:
        """Whether the feed-forward layer of this name has the activation of the config."""
        module = self._modules.get(name)
        return isinstance(module, FeedForward) and self._activates(module, kind)

    def goes_by_its_class(self, name: str) -> bool:
        """Whether the name of its class says what a module computes: of known classes, if the module is as written; of
        others, such as RMSNorm, if neither a hook nor an own forward stands before the class."""
        module = self._modules[name]
        if type(module) in LAYERS:
            return self.part(name)
        own = vars(module)
        return not self._patched and "forward" not in own and not any(own[hooks] for hooks in HOOKS)

    @staticmethod
    def _activates(module: FeedForward, kind: str) -> bool:
        return module.activation is FUNCTIONS.get(kind)
