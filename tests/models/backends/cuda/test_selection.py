"""Which networks the kernels step, and that decoding with them on a simulated GPU gives the CPU's tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.backends.cuda import selection
from models.backends.cuda.build import UnavailableError
from models.backends.cuda.launch import Launch
from models.backends.cuda.transformer_step import KernelTransformer
from models.backends.native.build import CHOICE
from models.backends.select import EXACT, select
from models.backends.torch.cuda_graph import Graphed
from models.backends.torch.transformer_step import EagerTransformer
from models.decoding.decoder import Decoder, decode
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt
from models.networks.transformer import Transformer
from tests.cuda_simulator import SimulatedCuda, simulated_cuda
from tests.models import tiny
from tests.models.backends.cuda import reference
from tests.models.backends.cuda.test_transformer_step import fitting, tokens
from tests.models.backends.torch.test_cuda_graph import Served

OWN_LAUNCHER = selection.launcher  # which the simulator replaces


@pytest.fixture
def cuda() -> Iterator[SimulatedCuda]:
    with simulated_cuda() as simulated:
        yield simulated


@pytest.fixture
def few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what comes after the trials, which take a second on a simulated GPU."""
    monkeypatch.setattr(selection, "TRIALS", ((1, 1),))
    monkeypatch.setattr(selection, "choices", lambda made: {})


@pytest.fixture
def reference_kernels(monkeypatch: pytest.MonkeyPatch, few_trials: None) -> None:
    monkeypatch.setattr(selection, "launcher", lambda device: reference.launch)


def on_cuda(**options: Any) -> Transformer:
    return tiny.transformer(**fitting(options)).to("cuda")


def test_the_kernels_step_an_unmodified_transformer(cuda: SimulatedCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "launcher", lambda device: reference.launch)
    selected = select(on_cuda(), "bf16")
    assert isinstance(selected.decodable, KernelTransformer)
    assert (selected.label, selected.backend, selected.reason) == ("bf16 native", "Triton kernels, bf16", EXACT)


@pytest.mark.slow
def test_recorded_steps_on_a_gpu_give_the_cpus_tokens(cuda: SimulatedCuda, reference_kernels: None) -> None:
    expected = tokens(EagerTransformer(tiny.transformer(**fitting({}))), 12, 8)
    selected = select(on_cuda(), "fp32")
    assert isinstance(selected.decodable, KernelTransformer)
    assert tokens(Graphed(selected.decodable), 12, 8) == expected
    assert cuda.counts.graph_launches > 0


def test_pytorch_steps_a_network_that_the_kernels_do_not_compute(cuda: SimulatedCuda, reference_kernels: None) -> None:
    edited = on_cuda()
    edited.decoder[0].around_cross.norm = nn.RMSNorm(16, device="cuda")
    selected = select(edited, "fp32")
    assert type(selected.decodable) is EagerTransformer
    assert selected.backend == "PyTorch, fp32"
    assert "around_cross" in selected.reason


def test_pytorch_steps_where_there_is_no_driver(cuda: SimulatedCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(device: torch.device) -> None:
        raise UnavailableError("the CUDA driver's library cannot be loaded (no libcuda.so.1)")

    monkeypatch.setattr(selection, "launcher", missing)
    selected = select(on_cuda(), "fp32")
    assert type(selected.decodable) is EagerTransformer
    assert selected.reason == "the CUDA driver's library cannot be loaded (no libcuda.so.1)"


def test_kernels_that_disagree_with_pytorch_are_not_used(cuda: SimulatedCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(launch: Launch) -> None:
        reference.launch(launch)
        if launch.kernel == "attend_source":
            context = launch.arguments[3]
            assert isinstance(context, Tensor)
            context.neg_()

    monkeypatch.setattr(selection, "launcher", lambda device: wrong)
    selected = select(on_cuda(), "fp32")
    assert type(selected.decodable) is EagerTransformer
    assert selected.reason.startswith("the kernels' logits differ from PyTorch's by ")


def test_kernels_whose_logits_are_no_numbers_in_one_trial_of_several_are_not_used(
    cuda: SimulatedCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(launch: Launch) -> None:
        reference.launch(launch)
        if launch.kernel == "attend_source" and launch.arguments[7] == 4:  # the second trial's group
            context = launch.arguments[3]
            assert isinstance(context, Tensor)
            context.fill_(torch.nan)

    monkeypatch.setattr(selection, "launcher", lambda device: wrong)
    selected = select(on_cuda(), "fp32")
    assert type(selected.decodable) is EagerTransformer
    assert selected.reason.startswith("the kernels' logits differ from PyTorch's by nan ")


@pytest.mark.parametrize(
    "kernel", ["choose", *(pytest.param(name, marks=pytest.mark.slow) for name in ("continue_beams", "move"))]
)
def test_every_kernel_that_a_step_may_need_is_tried_before_the_network_is_served(
    cuda: SimulatedCuda, monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    """A kernel that fails when it is first needed fails the requests of the whole batch."""

    def idle(launch: Launch) -> None:
        if launch.kernel != kernel:
            reference.launch(launch)

    monkeypatch.setattr(selection, "launcher", lambda device: idle)
    selected = select(on_cuda(), "bf16")
    assert type(selected.decodable) is EagerTransformer
    assert selected.reason == f"the kernel {kernel} differs from PyTorch in a trial"


def test_all_networks_of_a_device_share_the_kernels_that_are_loaded(
    cuda: SimulatedCuda, few_trials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[int]()

    def driver(arch: int) -> Callable[[Launch], None]:
        made.append(arch)
        return reference.launch

    monkeypatch.setattr(selection, "DriverLauncher", driver)
    monkeypatch.setattr(selection, "launcher", OWN_LAUNCHER)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (97, 5))
    networks = [select(on_cuda(), precision).decodable for precision in ("bf16", "bf16", "fp32")]
    assert all(isinstance(network, KernelTransformer) for network in networks)
    assert made == [975]


def test_kernels_can_be_switched_off(
    cuda: SimulatedCuda, reference_kernels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHOICE, "none")
    selected = select(on_cuda(), "fp32")
    assert type(selected.decodable) is EagerTransformer
    assert selected.reason == "PARLANCE_NATIVE is none"


class Counted(Graphed):
    """Counts the launches of the kernels and PyTorch's operators in one run of each step that it records."""

    def __init__(self, network: KernelTransformer, cuda: SimulatedCuda) -> None:
        super().__init__(network)
        network.launch = self._count
        self.cuda, self.launches, self.nodes = cuda, 0, set[tuple[int, int]]()

    def _count(self, launch: Launch) -> None:
        self.launches += 1

    def run(self, state: Any, shape: Any, step: Callable[[], Tensor], variant: Any = None) -> Tensor:
        before, self.launches = self.cuda.counts.launches, 0
        result = step()
        self.nodes.add((self.launches, self.cuda.counts.launches - before))
        return result


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param({}, 51, marks=pytest.mark.slow),
        pytest.param({"temperature": 0.9, "top_p": 0.8}, 51, marks=pytest.mark.slow),
        ({"beam_size": 4}, 58),
    ],
)
def test_a_step_of_six_layers_is_no_more_than_sixty_nodes(
    cuda: SimulatedCuda, reference_kernels: None, kind: dict[str, Any], expected: int
) -> None:
    network = on_cuda(decoder_layers=6)
    selected = select(network, "bf16").decodable
    assert isinstance(selected, KernelTransformer)
    counted = Counted(selected, cuda)
    decoder = Decoder(counted, TokenRules(3, (0, 1)), slots=8, source_length=8, target_length=20)
    options = DecodingOptions(max_new_tokens=9, seed=1, **kind)
    decoder.join([(number, Prompt((4, 5), (2,)), options) for number in range(2)])
    decoder.step()
    assert counted.nodes == {(expected, 0)}  # nothing of PyTorch's beside them


@pytest.mark.parametrize("renormalise", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_step_on_the_device_with_kernels_gives_the_cpus_results(
    cuda: SimulatedCuda, few_trials: None, monkeypatch: pytest.MonkeyPatch, renormalise: bool
) -> None:
    launches = Counter[str]()

    def counted(launch: Launch) -> None:
        launches[launch.kernel] += 1
        reference.launch(launch)

    monkeypatch.setattr(selection, "launcher", lambda device: counted)
    rules = TokenRules(3, (0, 1), renormalise=renormalise)
    network = tiny.transformer(**fitting({}))
    kinds: list[dict[str, Any]] = [{}, {"temperature": 0.9}, {"temperature": 1.2, "top_k": 5, "top_p": 0.8}]
    for chosen in (kinds[:1], [*kinds, {"beam_size": 3}], [{"beam_size": 4}]) if renormalise else (kinds,):
        prompts = [Prompt((4 + number % 7, 5, 6), (2,)) for number in range(8)]
        options = [
            DecodingOptions(max_new_tokens=6 + number % 5, seed=number, scores=True, **chosen[number % len(chosen)])
            for number in range(len(prompts))
        ]
        expected = decode(network, rules, prompts, options, slots=8)
        launches.clear()
        made = Graphed(select(on_cuda(), "fp32").decodable)  # type: ignore[arg-type]
        results = decode(Served(made), rules, prompts, options, slots=8)
        assert [[h.tokens for h in beam] for beam in results] == [[h.tokens for h in beam] for beam in expected]
        for ours, theirs in zip(results, expected, strict=True):
            assert ours[0].log_probability == pytest.approx(theirs[0].log_probability, abs=1e-4)
        beams = ["beam_size" in kind for kind in chosen]
        assert launches["choose"] > 0 or any(beams)
        assert launches["reorder" if all(beams) else "move"] > 0 or not any(beams)
