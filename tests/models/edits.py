"""Edits of networks, of each kind of module in each way: every one changes the numbers, and none may be ignored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.networks import recurrent, transformer
from models.networks.cells import CELLS, Step
from models.networks.recurrent import RecurrentCell, RecurrentLanguageModel, RecurrentState
from models.networks.transformer import FeedForward, MultiHeadAttention, Scope, Transformer
from tests.models import tiny

Edit = Callable[[Any, pytest.MonkeyPatch], None]
KINDS: dict[str, Callable[[Transformer], nn.Module]] = {
    "attention": lambda network: network.encoder[-1].attention,
    "decoder attention": lambda network: network.decoder[0].attention,
    "cross-attention": lambda network: network.decoder[-1].cross_attention,
    "projection of cross-attention": lambda network: network.decoder[0].cross_attention.projection,
    "feed-forward": lambda network: network.decoder[0].feed_forward,
    "linear map": lambda network: network.encoder[0].feed_forward.widen,
    "norm": lambda network: network.decoder[-1].around_cross.norm,
    "residual": lambda network: network.encoder[0].around_feed_forward,
    "encoder layer": lambda network: network.encoder[0],
    "decoder layer": lambda network: network.decoder[-1],
    "embedding": lambda network: network.target_embedding,
    "output projection": lambda network: network.output,
}


def shifted(x: Tensor) -> Tensor:
    """Another number everywhere, and not by a factor that a norm would take back."""
    return x + 0.6 * x.sin() + torch.linspace(0, 0.8, x.size(-1)).to(x)


def of_the_class(module: nn.Module, patched: pytest.MonkeyPatch) -> None:
    forward = type(module).forward
    patched.setattr(type(module), "forward", lambda self, *args, **named: shifted(forward(self, *args, **named)))


def of_the_instance(module: nn.Module, patched: pytest.MonkeyPatch) -> None:
    forward = module.forward
    patched.setattr(module, "forward", lambda *args, **named: shifted(forward(*args, **named)))


def by_a_subclass(module: nn.Module, patched: pytest.MonkeyPatch) -> None:
    kind: Any = type(module)

    class Edited(kind):
        def forward(self, *args: Any, **named: Any) -> Tensor:
            return shifted(super().forward(*args, **named))

    module.__class__ = Edited


def by_a_hook(module: nn.Module, patched: pytest.MonkeyPatch) -> None:
    module.register_forward_hook(lambda _, read, given: shifted(given))


def by_a_hook_before(module: nn.Module, patched: pytest.MonkeyPatch) -> None:
    """On what the module reads, unless that is a token."""

    def hook(_: nn.Module, read: tuple[Any, ...]) -> tuple[Any, ...]:
        first = read[0]
        return (shifted(first) if first.is_floating_point() else (first + 1) % 16, *read[1:])

    module.register_forward_pre_hook(hook)


WAYS = {
    "class": of_the_class,
    "instance": of_the_instance,
    "subclass": by_a_subclass,
    "hook": by_a_hook,
    "hook before": by_a_hook_before,
}


def on(kind: str, way: str) -> Edit:
    return lambda network, patched: WAYS[way](KINDS[kind](network), patched)


class SwiGLU(FeedForward):
    """Shazeer 2020."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.gate = nn.Linear(config.d_model, config.d_ff)

    def forward(self, x: Tensor) -> Tensor:
        narrowed: Tensor = self.narrow(self.dropout(F.silu(self.gate(x)) * self.widen(x)))
        return narrowed


def another_activation(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    network.encoder[1].feed_forward.activation = lambda x: x.relu().square()


def another_class(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    network.decoder[1].feed_forward = SwiGLU(network.config).train(network.training)


def another_norm(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    network.decoder[0].around_attention.norm = nn.RMSNorm(network.config.d_model).train(network.training)


def another_epsilon_of_norms_without_a_shift(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    norm = nn.LayerNorm(network.config.d_model, eps=0.3, bias=False)
    network.encoder[0].around_attention.norm = norm.train(network.training)


def a_parametrized_weight(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    class Halved(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight / 2

    nn.utils.parametrize.register_parametrization(network.encoder[0].attention.output, "weight", Halved())


def a_further_parameter(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    feed_forward = network.encoder[0].feed_forward
    feed_forward.gain = nn.Parameter(torch.full((24,), 1.7))
    of_the_instance(feed_forward, patched)


def positions(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    embed = Transformer.embed
    patched.setattr(Transformer, "embed", lambda self, embedding, ids, at: embed(self, embedding, ids, at + 3))
    network.position_vectors(64)


def a_patched_method(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    split = type(network.encoder[0].attention).query_key_value

    def rotated(self: Any, x: Tensor, scope: Any) -> tuple[Tensor, ...]:
        query, key, value = split(self, x, scope)
        angle = scope.positions[..., None].float()
        angle = angle[:, None] if angle.dim() == 3 else angle
        return query * angle.cos() + query.roll(1, -1) * angle.sin(), key * angle.cos(), value

    patched.setattr(type(network.encoder[0].attention), "query_key_value", rotated)


def shared_layers(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    network.decoder[1] = network.decoder[0]


def fewer_heads_removed_from_one_layer(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    network.encoder[0].attention.scale = 0.9


def table_of_activations(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    patched.setitem(transformer.ACTIVATIONS, "relu", lambda x: x.relu().square())
    for layer in (*network.encoder, *network.decoder):
        layer.feed_forward.activation = transformer.ACTIVATIONS["relu"]


def another_position_table(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    """A method that others reach through `self`."""

    def position_vectors(self: Transformer, length: int) -> Tensor:
        self.position_table = transformer.sinusoids(64, self.config.d_model, "interleaved").flip(0)
        return self.position_table

    patched.setattr(Transformer, "position_vectors", position_vectors)


def other_positions(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    first_positions = Transformer.first_positions
    patched.setattr(Transformer, "first_positions", lambda self, length: 2 * first_positions(self, 2 * length)[:length])


def a_helper_class(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Scope, "positions", property(lambda self: tuple.__getitem__(self, 0) + 3))
    network.position_vectors(64)


def a_function_of_pytorch(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    layer_norm = F.layer_norm
    patched.setattr(F, "layer_norm", lambda *given: shifted(layer_norm(*given)))


def an_output_with_a_bias(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    output = nn.Linear(network.config.d_model, network.config.target_vocabulary)
    nn.init.normal_(output.bias)
    network.output = output.train(network.training)


def a_matrix_that_lies_across(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    """Not contiguous."""
    torch.manual_seed(3)
    network.encoder[0].feed_forward.widen.weight = nn.Parameter(torch.randn(16, 24).t())


def a_sequence_of_embeddings(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    widened = nn.Sequential(network.source_embedding, nn.Linear(16, 16))
    network.source_embedding = widened.train(network.training)  # type: ignore[assignment]


def attention_without_groups(network: Transformer, patched: pytest.MonkeyPatch) -> None:
    """Each row of a beam reads a source of its own."""
    forward = MultiHeadAttention.forward

    def edited(self: Any, x: Tensor, scope: Any, remember: Any = None, source: Any = None) -> Tensor:
        if source is None:
            return forward(self, x, scope, remember)
        query = self.split(self.projection(x, slice(self.inner)))
        return self.attend(1.5 * query, *source, scope)  # type: ignore[no-any-return]

    patched.setattr(MultiHeadAttention, "forward", edited)


TRANSFORMER: dict[str, Edit] = {
    **{f"{kind}, {way}": on(kind, way) for kind in KINDS for way in WAYS},
    "another activation": another_activation,
    "SwiGLU": another_class,
    "RMSNorm": another_norm,
    "a norm without a shift": another_epsilon_of_norms_without_a_shift,
    "a parametrized weight": a_parametrized_weight,
    "a further parameter": a_further_parameter,
    "positions": positions,
    "a patched method": a_patched_method,
    "another scale in one layer": fewer_heads_removed_from_one_layer,
    "activations": table_of_activations,
    "position table": another_position_table,
    "first positions": other_positions,
    "a helper class": a_helper_class,
    "a function of PyTorch": a_function_of_pytorch,
    "an output with a bias": an_output_with_a_bias,
    "not contiguous": a_matrix_that_lies_across,
    "a sequence of embeddings": a_sequence_of_embeddings,
    "attention without groups": attention_without_groups,
}
ONE_OF_EACH_KIND = [f"{kind}, {way}" for kind, way in zip(KINDS, [*WAYS] * 3, strict=False)]
QUICK = {
    *ONE_OF_EACH_KIND,
    *("SwiGLU", "positions", "position table", "first positions", "a helper class", "an output with a bias"),
    *("a sequence of embeddings", "attention without groups"),
}
TRANSFORMER_NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in TRANSFORMER]
"""Every kind in every way is for the slow tests; each kind, and each way twice or more, is quick, as is each edit of
what a cached step, a forced pass or an inspection does in its own way."""


def relu_cell(step: Step) -> Step:
    return step._replace(hidden=step.hidden.relu() - 0.1, memory=step.memory.relu() - 0.1)


def formula(network: RecurrentLanguageModel, patched: pytest.MonkeyPatch) -> None:
    cell = CELLS[network.config.cell]
    patched.setitem(CELLS, network.config.cell, replace(cell, step=lambda *read: relu_cell(cell.step(*read))))


def cell_class(network: RecurrentLanguageModel, patched: pytest.MonkeyPatch) -> None:
    forward = RecurrentCell.forward
    patched.setattr(RecurrentCell, "forward", lambda self, *read: relu_cell(forward(self, *read)))


def cell_instance(network: RecurrentLanguageModel, patched: pytest.MonkeyPatch) -> None:
    forward = network.cells[0].forward
    patched.setattr(network.cells[0], "forward", lambda *read: relu_cell(forward(*read)))


def cell_subclass(network: RecurrentLanguageModel, patched: pytest.MonkeyPatch) -> None:
    class Edited(RecurrentCell):
        def forward(self, *read: Any) -> Step:
            return relu_cell(super().forward(*read))

    network.cells[0] = Edited(network.config.cell)


def cell_hook(network: RecurrentLanguageModel, patched: pytest.MonkeyPatch) -> None:
    network.cells[0].register_forward_hook(lambda _, read, given: relu_cell(given))


def residual_between_layers(network: RecurrentLanguageModel, patched: pytest.MonkeyPatch) -> None:
    run = RecurrentLanguageModel.run

    def doubled(self: Any, *read: Any) -> Any:
        features, state = run(self, *read)
        return features * 2, state

    patched.setattr(RecurrentLanguageModel, "run", doubled)


def dropout_that_scales(network: RecurrentLanguageModel, patched: pytest.MonkeyPatch) -> None:
    """A helper that a method names."""
    patched.setattr(recurrent, "dropped", lambda features, rate, **_: features * 1.5)


def another_start(network: RecurrentLanguageModel, patched: pytest.MonkeyPatch) -> None:
    def zeros(self: Any, rows: int) -> RecurrentState:
        start = torch.full((self.config.layers, rows, self.config.hidden), 0.7)
        return RecurrentState(start, start)

    patched.setattr(RecurrentLanguageModel, "zeros", zeros)


def another_kind(network: RecurrentLanguageModel, patched: pytest.MonkeyPatch) -> None:
    cell = CELLS[network.config.cell]
    patched.setitem(CELLS, "another", replace(cell, step=lambda *read: relu_cell(cell.step(*read))))
    network.cells[0].kind = "another"


def halved_recurrent_weight(network: RecurrentLanguageModel, patched: pytest.MonkeyPatch) -> None:
    class Halved(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight / 2 - 0.5

    nn.utils.parametrize.register_parametrization(network.recurrent, "weight_hh_l0", Halved())


def norms_of_embeddings(network: RecurrentLanguageModel, patched: pytest.MonkeyPatch) -> None:
    assert network.embedding is not None
    network.embedding.max_norm = 0.2


def a_sequence_of_outputs(network: RecurrentLanguageModel, patched: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    network.output = nn.Sequential(nn.Linear(10, 7), nn.Linear(7, 19)).train(network.training)  # type: ignore[assignment]


RECURRENT: dict[str, Edit] = {
    "formula": formula,
    "class": cell_class,
    "instance": cell_instance,
    "subclass": cell_subclass,
    "hook": cell_hook,
    "run": residual_between_layers,
    "a helper": dropout_that_scales,
    "zeros": another_start,
    "kind of a cell": another_kind,
    "a parametrized weight": halved_recurrent_weight,
    "norms of embeddings": norms_of_embeddings,
    "a sequence of outputs": a_sequence_of_outputs,
    "embedding": lambda network, patched: by_a_hook(network.embedding, patched),
    "output": lambda network, patched: of_the_instance(network.output, patched),
}


WHOLE = {
    Transformer: ("forward", "features", "decode"),
    RecurrentLanguageModel: ("forward", "features", "sequence", "_all_layers", "fused_layer"),
}
"""Methods that not every use of a network runs."""


def of_the_whole(network: nn.Module, method: str, way: str, patched: pytest.MonkeyPatch) -> None:
    plain = getattr(type(network), method)
    if way == "hook":
        network.register_forward_hook(lambda *_: None)
    elif way == "instance":
        patched.setattr(network, method, lambda *args: plain(network, *args))
    elif way == "class":
        patched.setattr(type(network), method, lambda self, *args: plain(self, *args))
    else:
        network.__class__ = type("Edited", (type(network),), {method: lambda self, *args: plain(self, *args)})


def edited_transformer(name: str, patched: pytest.MonkeyPatch, **options: Any) -> Transformer:
    network = tiny.transformer(**options)
    TRANSFORMER[name](network, patched)
    return network


def edited_recurrent(name: str, cell: str, patched: pytest.MonkeyPatch, **options: Any) -> RecurrentLanguageModel:
    network = tiny.recurrent(cell=cell, **options)
    RECURRENT[name](network, patched)
    return network
