"""A network that is edited is the network that runs: decoded, scored and looked into, by every backend."""

from __future__ import annotations

import compileall
import functools
import os
import shutil
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import models
from models.backends import select
from models.backends.native import coverage
from models.backends.native.build import CHOICE
from models.backends.torch.cuda_graph import Graphed
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.exactness import TABLE, definitions, methods
from models.inspection.ablation import without_heads
from models.inspection.forced_pass import forced_pass
from models.inspection.gate_traces import gate_trace
from models.inspection.selection import GateSelection, Head, SelectionError, WalkthroughFocus
from models.inspection.walkthrough import walkthrough
from models.interface import Prompt
from models.networks import recurrent, transformer
from models.networks.cells import CELLS, SIGMOID, TANH, Cell, Step
from models.networks.loading import uncopyable
from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import FeedForward, MultiHeadAttention, Projection, Transformer
from models.scoring import score
from tests.models import edits, tiny
from tests.models.backends.torch.test_cuda_graph import Rerun
from tests.models.stepping import CONTINUATIONS, RAGGED, full, stepped

CPU = torch.device("cpu")
TEXT = (3, 9, 4, 4, 12, 7, 1, 18, 2, 9, 15)
SOURCE, TARGET = (3, 4, 5, 6, 7), (1, 9, 10, 11, 3, 3)


def test_a_network_as_it_is_written_runs_in_our_kernels() -> None:
    for options in tiny.OPTIONS.values():
        assert coverage.transformer_difference(tiny.transformer(**options)) is None
    for cell in tiny.FUSED_CELLS:
        for embedding in (0, 6):
            assert coverage.recurrent_difference(tiny.recurrent(cell=cell, embedding=embedding)) is None


def test_fingerprints_match_the_code() -> None:
    """Where this fails, `models.networks` was edited. If the tests of the kernels still pass, no number has changed:
    `python -m models.backends.native.coverage` writes the fingerprints down. If they do not, the kernels have to
    learn the change first; until then they decline, and PyTorch runs the edited network."""
    table = Path(str(transformer.__file__)).with_name(TABLE)
    assert coverage.current_code() == table.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", edits.TRANSFORMER_NAMES)
def test_an_edited_transformer_is_decoded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = full(tiny.transformer(), RAGGED, CONTINUATIONS)
    network = edits.edited_transformer(name, monkeypatch)
    expected = full(network, RAGGED, CONTINUATIONS)
    assert (expected - before).abs().max() > 0.02, "the edit says something"
    selection = select.select(network)
    assert not selection.native
    torch.testing.assert_close(stepped(selection.decodable, RAGGED, CONTINUATIONS), expected, rtol=0, atol=2e-5)
    if uncopyable(network):
        for precision in ("int8", "bf16"):
            with pytest.raises(ValueError, match="has a forward that no copy can have"):
                select.select(network, precision)  # type: ignore[arg-type]
        return
    in_int8 = select.select(network, "int8")
    assert not in_int8.native
    assert in_int8.reason
    result = stepped(in_int8.decodable, RAGGED, CONTINUATIONS)
    assert (result - expected).norm() < 0.8 * (result - before).norm(), (
        "it is rounded, and still nearer to the edited one"
    )


def by_graphs(network: Any) -> Any:
    """Stepped as a GPU steps it, but that each step's logits are kept: a graph writes over them."""
    graphed: Any = Graphed(select.decodable(network), Rerun)  # type: ignore[arg-type]
    step = graphed.step
    graphed.step = lambda *given: step(*given).clone()
    return graphed


@pytest.mark.parametrize("name", edits.ONE_OF_EACH_KIND)
def test_an_edited_transformer_is_decoded_by_graphs_and_in_bf16(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = full(tiny.transformer(), RAGGED, CONTINUATIONS)
    network = edits.edited_transformer(name, monkeypatch)
    expected = full(network, RAGGED, CONTINUATIONS)
    torch.testing.assert_close(stepped(by_graphs(network), RAGGED, CONTINUATIONS), expected, rtol=0, atol=2e-5)
    if uncopyable(network):
        return
    narrow = stepped(select.decodable(network, "bf16"), RAGGED, CONTINUATIONS)
    assert (narrow - expected).norm() < 0.5 * (narrow - before).norm()


@pytest.mark.parametrize("name", edits.TRANSFORMER_NAMES)
def test_edited_transformer_is_scored_and_inspected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = edits.edited_transformer(name, monkeypatch)
    with torch.inference_mode():
        logits = network(torch.tensor([SOURCE]), torch.tensor([TARGET]))[0]
    expected = logits.double().log_softmax(-1)[range(5), TARGET[1:]]
    scored = score(select.teacher_forced(network), SOURCE, TARGET)
    torch.testing.assert_close(scored.log_probabilities, expected, rtol=0, atol=1e-5)
    forced = forced_pass(network, SOURCE, TARGET)
    torch.testing.assert_close(forced.logits, logits, rtol=0, atol=2e-5)
    for side, layer in (("encoder", 0), ("encoder", 1), ("decoder", 0), ("decoder", 1)):
        place = {"side": side, "layer": layer, "head": 1, "position": 4}
        focus = WalkthroughFocus(**place, most=tiny.TARGET)  # type: ignore[arg-type]
        steps = walkthrough(network, SOURCE, TARGET, focus, TokenRules(None)).steps
    (annotated,) = [step for step in steps if step.name == "logits"]
    assert annotated.indices is not None
    torch.testing.assert_close(torch.tensor(annotated.values), logits[4][list(annotated.indices)], rtol=0, atol=2e-5)
    (sums,) = [step for step in steps if step.name == "softmax" and step.part == "self-attention"]
    assert sum(sums.values) == pytest.approx(1, abs=1e-5)  # type: ignore[arg-type]


def test_walkthrough_of_an_edited_layer_shows_module_inputs_and_outputs() -> None:
    network = tiny.transformer()
    network.decoder[1].feed_forward.activation = lambda x: x.relu().square()
    focus = WalkthroughFocus("decoder", 1, 0, 2, most=99)
    steps = walkthrough(network, SOURCE, TARGET, focus, TokenRules(None)).steps
    annotated = {step.name: torch.tensor(step.values) for step in steps if step.part == "feed-forward"}
    torch.testing.assert_close(annotated["activation"], annotated["widen"].relu().square())
    narrow = network.decoder[1].feed_forward.narrow
    torch.testing.assert_close(annotated["narrow"].float(), narrow(annotated["activation"].float()), rtol=0, atol=1e-5)


def test_global_hook_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    network, seen = tiny.transformer(), list[nn.Module]()
    handle = nn.modules.module.register_module_forward_hook(lambda module, read, given: seen.append(module))
    try:
        assert coverage.transformer_difference(network) == "every module has a global hook"
        stepped(select.decodable(network, "int8"), RAGGED, CONTINUATIONS)
        assert network.decoder[0].feed_forward.dropout in seen or seen
    finally:
        handle.remove()
    assert coverage.transformer_difference(network) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("SwiGLU", "decoder.1 has a SwiGLU as its feed_forward"),
        ("RMSNorm", "decoder.0.around_attention has a RMSNorm as its norm"),
        ("feed-forward, class", "FeedForward.forward was edited"),
        ("norm, class", "LayerNorm.forward was patched"),
        ("feed-forward, instance", "decoder.0.feed_forward has another forward"),
        ("residual, hook", "encoder.0.around_feed_forward has a hook"),
        ("another activation", "encoder.1.feed_forward has another activation"),
        ("a parametrized weight", "encoder.0.attention has a ParametrizedLinear as its output"),
        ("a patched method", "MultiHeadAttention.query_key_value was edited"),
        ("positions", "Transformer.embed was edited"),
        ("another scale in one layer", "encoder.0.attention has another scale"),
        ("activations", "encoder.0.feed_forward has another activation"),
        ("position table", "Transformer.position_vectors was edited"),
        ("a helper class", "Scope.positions was edited"),
        ("a function of PyTorch", "torch.nn.functional.layer_norm was patched"),
        ("an output with a bias", "output has another bias"),
        ("not contiguous", "encoder.0.feed_forward.widen.weight is not contiguous"),
    ],
)
def test_the_reason_names_the_edit(name: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert coverage.transformer_difference(edits.edited_transformer(name, monkeypatch)) == reason


def test_an_activation_of_a_new_name_is_an_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(transformer.ACTIVATIONS, "mish", nn.functional.mish)
    monkeypatch.setitem(transformer.CHOICES, "activation", ("relu", "mish"))
    network = tiny.transformer(activation="mish")
    selection = select.select(network, "int8")
    assert (selection.native, selection.reason) == (False, "encoder.0.feed_forward has another activation")
    walk = walkthrough(network, SOURCE, TARGET, WalkthroughFocus("decoder", 0, 0, 2), TokenRules(None))
    assert [step.name for step in walk.steps if step.formula is None] == ["activation"]


@pytest.mark.every_value
@pytest.mark.parametrize("kernels", ["", "none"])
@pytest.mark.parametrize("precision", [*select.PRECISIONS, "auto"])
def test_the_edit_is_the_reason_in_every_precision(
    precision: Any, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernels:
        monkeypatch.setenv(CHOICE, kernels)

    def reason(network: Any) -> str:
        chosen = select.fastest(network, CPU)[0] if precision == "auto" else select.select(network, precision)
        assert not chosen.native
        return chosen.reason

    edited = edits.edited_transformer("RMSNorm", monkeypatch)
    assert reason(edited) == "decoder.0.around_attention has a RMSNorm as its norm"
    assert reason(edits.edited_recurrent("formula", "gru", monkeypatch)) == "the cell gru was edited"


def test_unedited_networks_say_in_which_precision_kernels_step_them() -> None:
    assert select.select(tiny.transformer(), "bf16").reason == "our kernels step it in int8 on CPUs"
    assert select.select(tiny.recurrent(), "bf16").reason == "our kernels step it in fp32 on CPUs"


@pytest.mark.parametrize("name", ["source_embedding", "target_embedding", "output"])
def test_embedding_with_another_vocabulary_is_declined(name: str) -> None:
    """They would read behind the matrix."""
    network = tiny.transformer()
    small = nn.Linear(16, 10, bias=False) if name == "output" else nn.Embedding(10, 16)
    setattr(network, name, small)
    size = "out_features" if name == "output" else "num_embeddings"
    assert coverage.transformer_difference(network) == f"{name} has another {size}"
    singer = tiny.recurrent()
    if name == "output":
        singer.output = nn.Linear(10, 9)
    else:
        singer.embedding = nn.Embedding(10, 6)
    assert str(coverage.recurrent_difference(singer)).endswith(f" has another {size}")


@pytest.mark.parametrize("kind", ["a wider buffer", "a transposed buffer", "a trained position table"])
def test_tensors_of_another_kind_are_declined(kind: str) -> None:
    """Kernels would read them as the parameters that they stand for."""
    network = tiny.transformer()
    assert network.encoder is not None
    widen = network.encoder[0].feed_forward.widen
    if kind == "a trained position table":
        table = network.position_table
        del network.position_table
        network.position_table = nn.Parameter(torch.as_tensor(table))
    else:
        weight = widen.weight.detach()
        del widen.weight
        widen.register_buffer("weight", weight.repeat(2, 1) if kind == "a wider buffer" else weight.T.clone().T)
    assert "has other tensors" in str(coverage.transformer_difference(network))


def test_a_note_on_a_module_changes_nothing() -> None:
    network = tiny.transformer()
    network.name = "mine"  # type: ignore[assignment]
    assert coverage.transformer_difference(network) is None


def test_embedding_options_are_declined() -> None:
    for option, value in {"padding_idx": 0, "max_norm": 1.0, "scale_grad_by_freq": True}.items():
        network, singer = tiny.transformer(), tiny.recurrent()
        setattr(network.source_embedding, option, value)
        setattr(singer.embedding, option, value)
        assert coverage.transformer_difference(network) == f"source_embedding has another {option}"
        assert coverage.recurrent_difference(singer) == f"embedding has another {option}"


def test_replaced_default_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny.transformer()
    assert coverage.transformer_difference(network) is None
    monkeypatch.setattr(Projection.forward, "__defaults__", (slice(0, 8),))
    assert coverage.transformer_difference(network) == "Projection.forward was edited"


def test_replaced_torch_nn_functional_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the same name under the same name."""
    other = types.ModuleType("other")
    other.__dict__.update(nn.functional.__dict__)
    other.__dict__["scaled_dot_product_attention"] = lambda query, key, value, **_: value
    monkeypatch.setattr(transformer, "F", other)
    assert coverage.transformer_difference(tiny.transformer()) == "F was edited"


@pytest.mark.parametrize("name", ["_call_impl", "__getattr__"])
def test_patched_calls_of_every_module_are_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network, method = tiny.transformer(), getattr(nn.Module, name)
    monkeypatch.setattr(nn.Module, name, lambda *args, **named: method(*args, **named))
    assert str(coverage.transformer_difference(network)).endswith(f".{name} was patched")


def test_replaced_operators_below_functions_and_layers_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(torch, "relu", torch.sigmoid)
        assert coverage.transformer_difference(tiny.transformer()) == "torch.relu was patched"
    for cell, name in (("gru", "gru"), ("lstm", "lstm"), ("rnn", "rnn_tanh")):
        with monkeypatch.context() as patched:
            patched.setattr(torch._VF, name, lambda *args: None)
            assert coverage.recurrent_difference(tiny.recurrent(cell=cell)) == f"torch.{name} was patched"
    assert coverage.recurrent_difference(tiny.recurrent(cell="gru")) is None


class Doubled(nn.Parameter):
    """A tensor whose products are others."""


def test_changes_that_leave_names_as_they_are_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def difference(change: Callable[[pytest.MonkeyPatch], object]) -> str | None:
        with monkeypatch.context() as patched:
            change(patched)
            return coverage.transformer_difference(tiny.transformer())

    forward = FeedForward.forward
    wrapped = functools.wraps(forward)(lambda self, x: 2 * forward(self, x))
    other = (lambda self, x: x).__code__
    assert difference(lambda _: None) is None
    assert difference(lambda p: p.setattr(FeedForward, "forward", wrapped)) == "FeedForward.forward was edited"
    assert difference(lambda p: p.setattr(forward, "__code__", other)) == "FeedForward.forward was edited"
    assert difference(lambda p: p.setattr(nn.LayerNorm.forward, "__code__", other)) == "LayerNorm.forward was patched"
    assert difference(lambda p: p.setattr(transformer, "zip", zip, raising=False)) == "zip was edited"
    assert difference(lambda p: p.setattr(transformer, "sinusoids", torch.zeros)) == "sinusoids was edited"
    scale = property(lambda self: 9.0, lambda self, scale: None)
    changed = difference(lambda p: p.setattr(MultiHeadAttention, "scale", scale, raising=False))
    assert changed == "MultiHeadAttention.scale was edited"


def test_weight_of_another_class_of_tensors_is_declined() -> None:
    network = tiny.transformer()
    network.encoder[0].feed_forward.widen.weight = Doubled(network.encoder[0].feed_forward.widen.weight.detach())
    assert coverage.transformer_difference(network) == "encoder.0.feed_forward.widen has another weight"


def test_replaced_operator_of_a_layer_is_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recurrent.OPERATORS, "gru", lambda *read, **options: read[:2])
    assert str(coverage.recurrent_difference(tiny.recurrent(cell="gru"))).endswith("was edited")


@pytest.mark.parametrize("kind", [Transformer, RecurrentLanguageModel])
def test_every_edited_method_is_detected(kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the class and of the instance."""
    network: Any = tiny.transformer() if kind is Transformer else tiny.recurrent()
    difference: Any = coverage.transformer_difference if kind is Transformer else coverage.recurrent_difference
    names = methods(kind)
    assert {"forward", "features", "project", "device"} <= names
    for name in names:
        member = vars(kind)[name]
        with monkeypatch.context() as patched:
            edited: Any = property(lambda self: 1)
            if not isinstance(member, property):
                edited = lambda self, *given, plain=member: plain(self, *given)  # noqa: E731
            patched.setattr(kind, name, edited)
            assert difference(network) == f"{kind.__name__}.{name} was edited"
        if not isinstance(member, property):
            vars(network)[name] = lambda: 1
            assert difference(network) is not None, name
            del vars(network)[name]
    assert difference(network) is None


@pytest.mark.parametrize("tied", ["none", "output"])
def test_an_edited_method_that_reads_a_matrix_reads_it_in_int8(tied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def project(self: Transformer, features: Tensor) -> Tensor:
        normalized = nn.functional.normalize
        return 5 * nn.functional.linear(normalized(features, dim=-1), normalized(self.output_weight, dim=-1))

    monkeypatch.setattr(Transformer, "project", project)
    network = tiny.transformer(tied=tied)
    expected = full(network, RAGGED, CONTINUATIONS)
    selection = select.select(network, "int8")
    assert selection.label == ("int8" if tied == "none" else "int8 in part")
    result = stepped(selection.decodable, RAGGED, CONTINUATIONS)
    torch.testing.assert_close(result, expected, rtol=0, atol=0.15)
    assert "int8" in select.fastest(network, torch.device("cpu"))[1]


def test_a_precision_that_an_edit_does_not_fit_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def project(self: Transformer, features: Tensor) -> Tensor:
        return features @ torch.ones(16, tiny.TARGET)

    monkeypatch.setattr(Transformer, "project", project)
    _, times = select.fastest(tiny.transformer(), torch.device("cpu"))
    assert set(times) == {"fp32", "int8"}
    assert "bf16 is left out, the network fails in it: RuntimeError" in caplog.text
    monkeypatch.setattr(Transformer, "project", lambda self, features: features @ torch.ones(3))
    with pytest.raises(RuntimeError):
        select.fastest(tiny.transformer(), torch.device("cpu"))


@pytest.mark.parametrize("name", ["weight norm", "method"])
def test_a_network_that_cannot_be_copied_is_refused_in_a_sentence(name: str) -> None:
    network = tiny.transformer()
    attention = network.decoder[0].attention
    if name == "method":
        attend = attention.attend
        vars(attention)["attend"] = lambda *read: 1.5 * attend(*read)
    else:
        with warnings.catch_warnings(action="ignore"):
            nn.utils.weight_norm(network.encoder[0].feed_forward.widen)
        network(torch.tensor([SOURCE]), torch.tensor([TARGET]))
    for precision in ("bf16", "int8"):
        with pytest.raises(select.RefusedError, match=r"no copy can have.*: decode it in fp32 and in evaluation mode"):
            select.select(network, precision)  # type: ignore[arg-type]
    with pytest.raises(SelectionError, match=r"Heads cannot be taken away here: .*no copy can have"):
        without_heads(network, [Head("decoder", 0, 1)])
    expected = full(network, RAGGED, CONTINUATIONS)
    selection, times = select.fastest(network, torch.device("cpu"))
    if name == "method":
        assert set(times) == {"fp32"}
    else:  # once it has run without gradients it can be copied, and the fastest may be another precision
        selection = select.select(network, "fp32")
    torch.testing.assert_close(stepped(selection.decodable, RAGGED, CONTINUATIONS), expected, rtol=0, atol=2e-5)


def test_partial_quantization_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    network = edits.edited_transformer("a parametrized weight", monkeypatch)
    assert select.select(network, "int8").label == "int8 in part"
    assert select.select(edits.edited_transformer("RMSNorm", monkeypatch), "int8").label == "int8"


@pytest.mark.slow
def test_code_without_a_source_is_not_called_edited(tmp_path: Path) -> None:
    """Modules that exist only as bytecode cannot be compared, and PyTorch runs them."""
    root = Path(str(models.__file__)).parents[1]
    shutil.copytree(root / "models", tmp_path / "models", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").symlink_to(root / "tests")
    networks = tmp_path / "models/networks"
    assert compileall.compile_dir(networks, quiet=1, legacy=True)
    for path in networks.glob("*.py"):
        path.unlink()
    script = "from models.backends.select import select; from tests.models import tiny\n"
    script += (
        "for made in (select(tiny.transformer(), 'int8'), select(tiny.recurrent())): print(made.label, made.reason)"
    )
    run, environment = [sys.executable, "-c", script], {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "int8 in part the source of models.networks.transformer cannot be read",
        "fp32 the source of models.networks.cells cannot be read",
    ], done.stderr


def test_unquantized_network_is_not_reported_as_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = nn.functional.linear
    monkeypatch.setattr(nn.functional, "linear", lambda x, *matrices: linear(2 * x, *matrices))
    network = tiny.transformer()
    selection = select.select(network, "int8")
    assert (selection.label, selection.reason) == ("fp32", "torch.nn.functional.linear was patched")
    expected = full(network, RAGGED, CONTINUATIONS)
    torch.testing.assert_close(stepped(selection.decodable, RAGGED, CONTINUATIONS), expected, rtol=0, atol=2e-5)


def decoded_text(decodable: Any) -> Tensor:
    """The logits of each token of TEXT: the first four are read as a prompt, the others stepped."""
    state = decodable.allocate(3, 0, 20)
    decodable.prefill(state, [0, 2], [Prompt((), TEXT[:4]), Prompt((), (5, 6))])
    return torch.stack([decodable.step(state, torch.tensor([token]))[0] for token in TEXT[3:]])


@pytest.mark.every_value
@pytest.mark.parametrize("name", edits.RECURRENT)
@pytest.mark.parametrize("cell", CELLS)
def test_edited_recurrent_network_is_decoded_scored_and_inspected(
    cell: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.inference_mode():
        before = tiny.recurrent(cell=cell)(torch.tensor([TEXT]))[0][0]
        network = edits.edited_recurrent(name, cell, monkeypatch)
        state = network.zeros(1)
        features, _ = network.run(torch.tensor([TEXT]), state, network.scan)
        expected = network.project(network.dropped(features))[0]
    assert (expected - before).abs().max() > 0.02, "the edit says something"
    assert not select.select(network).native
    torch.testing.assert_close(decoded_text(select.decodable(network)), expected[3:], rtol=0, atol=1e-5)
    torch.testing.assert_close(decoded_text(by_graphs(network)), expected[3:], rtol=0, atol=1e-5)
    with torch.inference_mode():
        torch.testing.assert_close(network(torch.tensor([TEXT]))[0][0], expected, rtol=0, atol=1e-5)
    scored = score(select.teacher_forced(network), (), TEXT)
    wanted = expected.double().log_softmax(-1)[range(10), TEXT[1:]]
    torch.testing.assert_close(scored.log_probabilities, wanted, rtol=0, atol=1e-5)
    trace = gate_trace(network, TEXT, GateSelection(units=tuple(range(10))))
    with torch.inference_mode():
        torch.testing.assert_close(network.project(trace.features), expected, rtol=0, atol=1e-5)
    if name not in ("a helper", "run"):
        torch.testing.assert_close(trace.values["h"][-1], features[0], rtol=0, atol=1e-5)


@pytest.mark.every_value
@pytest.mark.parametrize("way", ["instance", "class", "subclass", "hook"])
@pytest.mark.parametrize(("kind", "method"), [(kind, name) for kind, names in edits.WHOLE.items() for name in names])
def test_an_edit_that_not_every_use_runs_is_refused(
    kind: type[nn.Module], method: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step over a cache, for one, is no part of `forward`."""
    network: Any = tiny.transformer() if kind is Transformer else tiny.recurrent()
    edits.of_the_whole(network, method, way, monkeypatch)
    what = "The network as a whole has a hook" if way == "hook" else rf"\.{method} was edited"
    uses: list[Any] = [select.decodable, select.teacher_forced]
    if kind is Transformer:
        uses += [lambda network: forced_pass(network, SOURCE, TARGET)]
    else:
        uses += [lambda network: gate_trace(network, TEXT, GateSelection())]
    for use in uses:
        with pytest.raises(ValueError, match=rf"{what}\. Training, decoding, .* they run .*project: change these"):
            use(network)


def test_beams_of_an_attention_without_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    network = edits.edited_transformer("attention without groups", monkeypatch)
    options = DecodingOptions(max_new_tokens=6, beam_size=3, n_best=3)
    for prompt, beam in zip(RAGGED, decode(network, TokenRules(2), RAGGED, options), strict=True):
        for hypothesis in beam:
            tokens = (*prompt.prefix, *hypothesis.tokens, *([2] if hypothesis.finished else []))
            scored = score(select.teacher_forced(network), prompt.source, tokens).log_probabilities
            written = scored[len(prompt.prefix) - 1 :].sum().item()
            assert written == pytest.approx(hypothesis.log_probability, abs=1e-4)


def test_attention_without_weights_is_refused_per_layer() -> None:
    class Silent(nn.Module):
        def forward(self, x: Tensor, scope: Any) -> Tensor:
            return x

    network = tiny.transformer()
    network.encoder[0].attention = Silent()
    sentence = "the attention of layer 0 does not hand its weights to Scope.capture"
    with pytest.raises(SelectionError, match=sentence):
        forced_pass(network, SOURCE, TARGET)
    assert set(forced_pass(network, SOURCE, TARGET, ("decoder", "cross")).maps) == {"decoder", "cross"}
    with pytest.raises(SelectionError, match=sentence):
        forced_pass(network, SOURCE, TARGET, (), masked=[Head("encoder", 1, 0)])
    with pytest.raises(SelectionError, match=r"Heads cannot be taken away here: .* has no attribute 'output'"):
        without_heads(network, [Head("encoder", 0, 0)])


@pytest.mark.parametrize("cell", tiny.FUSED_CELLS)
def test_recurrent_layer_options_are_declined(cell: str) -> None:
    network = tiny.recurrent(cell=cell)
    if cell == "rnn":
        weights = network.recurrent.state_dict()
        network.recurrent = nn.RNN(6, 10, 2, nonlinearity="relu", batch_first=True).eval()
        network.recurrent.load_state_dict(weights)
    else:
        network.recurrent.batch_first = False
    option = "mode" if cell == "rnn" else "batch_first"
    assert coverage.recurrent_difference(network) == f"recurrent has another {option}"
    with torch.inference_mode():
        tokens = torch.tensor([TEXT])
        states, _ = network.run(tokens, network.zeros(1), network.scan)
        torch.testing.assert_close(network(tokens)[0], network.project(states), rtol=0, atol=1e-5)


EDITS = {
    "models/networks/transformer.py": ("self.activation(self.widen(x))", "self.activation(self.widen(x)).square()"),
    "models/networks/cells.py": ("recurrent[:, 2 * width :]).tanh()", "recurrent[:, 2 * width :]).relu()"),
}
SCRIPT = """
import torch
from models.backends import select
from models.interface import Prompt
from tests.models import tiny
from tests.models.stepping import CONTINUATIONS, RAGGED, full, stepped
network = tiny.transformer()
found = stepped(select.decodable(network, "fp32"), RAGGED, CONTINUATIONS)
assert torch.allclose(found, full(network, RAGGED, CONTINUATIONS), atol=1e-5)
print(select.select(network, "int8").reason)
network = tiny.recurrent(cell="gru")
print(select.select(network, "fp32").reason)
print(float(found.sum()), float(network(torch.tensor([[3, 4, 5, 6, 7, 8]]))[0].sum()))
"""


@pytest.mark.slow
def test_an_edit_of_the_source_is_what_runs(tmp_path: Path) -> None:
    """The source of the classes, not changes at run time."""
    root = Path(str(models.__file__)).parents[1]
    shutil.copytree(root / "models", tmp_path / "models", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").symlink_to(root / "tests")
    outputs = []
    for file, (old, new) in [("", ("", "")), *EDITS.items()]:
        if file:
            text = (tmp_path / file).read_text()
            assert text.count(old) == 1
            (tmp_path / file).write_text(text.replace(old, new))
        run = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(
            run,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.splitlines())
    plain, one, both = outputs
    assert "FeedForward.forward was edited" in one[0]
    assert "the cell gru was edited" in both[1]
    assert len({plain[2].split()[0], one[2].split()[0]}) == 2
    assert len({one[2].split()[1], both[2].split()[1]}) == 2


def test_a_harmless_edit_of_a_comment_a_docstring_or_an_annotation_changes_no_fingerprint() -> None:
    plain = "def double(x: Tensor) -> Tensor:\n    y: Tensor = x + x\n    return y\n"
    annotated = 'def double(x: Any) -> Any:\n    """Twice."""\n    y = x + x  # why\n    return y\n'
    assert definitions(plain) == definitions(annotated)
    assert definitions(plain) != definitions(plain.replace("x + x", "x * x"))


def test_new_function_that_takes_the_name_of_an_import_is_an_edit_of_it() -> None:
    plain = "from functools import cache, partial\n\ndef double(x):\n    return x + x\n"
    known, found = definitions(plain), definitions(f"{plain}\ndef partial(x):\n    return x\n")
    assert {label for label in found if found[label] != known.get(label)} == {"partial"}


def minimal(projected: Tensor, recurrent: Tensor, hidden: Tensor, memory: Tensor) -> Step:
    """The minimal gated unit (Zhou et al. 2016), with the reset gate of a GRU."""
    width = hidden.size(-1)
    f = (projected[:, :width] + recurrent[:, :width]).sigmoid()
    n = (projected[:, width:] + f * recurrent[:, width:]).tanh()
    new = (1 - f) * hidden + f * n
    return Step(new, new, {"f": f, "n": n})


def test_a_new_cell_is_a_function_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained, decoded, scored and shown gate by gate."""
    monkeypatch.setitem(CELLS, "minimal", Cell(minimal, {"f": SIGMOID, "n": TANH}, "h' = (1 - f) h + f n"))
    network, tokens = tiny.recurrent(cell="minimal"), torch.tensor([TEXT])
    assert select.select(network).reason == "its cell is minimal"
    with torch.inference_mode():
        expected = network(tokens)[0][0]
    torch.testing.assert_close(decoded_text(select.decodable(network)), expected[3:], rtol=0, atol=1e-5)
    scored = score(select.teacher_forced(network), (), TEXT)
    wanted = expected.double().log_softmax(-1)[range(10), TEXT[1:]]
    torch.testing.assert_close(scored.log_probabilities, wanted, rtol=0, atol=1e-5)
    trace = gate_trace(network, TEXT, GateSelection())
    assert list(trace.values) == ["f", "n", "h"]
    loss = network(tokens)[0].log_softmax(-1)[..., 3].sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in network.parameters())
    again = tiny.recurrent(cell="minimal", seed=1)
    again.load_state_dict(network.state_dict())
    assert torch.equal(again(tokens)[0], network(tokens)[0])
