"""The simulator does what CUDA and PyTorch's CUDA API do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from tests.cuda_simulator import Copy, SimulatedCuda, simulated_cuda
from tests.cuda_simulator.streams import HazardError


@pytest.fixture
def cuda() -> Iterator[SimulatedCuda]:
    with simulated_cuda(devices=2) as cuda:
        yield cuda


def test_devices_do_not_mix(cuda: SimulatedCuda) -> None:
    one, other, host = (torch.ones(3, device=device) for device in ("cuda:0", "cuda:1", "cpu"))
    assert (one + torch.tensor(2.0)).tolist() == [3.0] * 3  # a single number may stand on the host
    for wrong in (other, host):
        with pytest.raises(RuntimeError, match="same device"):
            one + wrong
    with pytest.raises(RuntimeError, match="same device"):
        torch.where(one > 0, one, host)


def test_without_an_index_the_current_device_is_meant(cuda: SimulatedCuda) -> None:
    with torch.cuda.device(1):
        assert torch.zeros(1, device="cuda").device == torch.device("cuda", 1)
    assert torch.zeros(1, device="cuda").device == torch.device("cuda", 0)
    torch.cuda.set_device("cuda:1")
    assert torch.cuda.current_device() == 1
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.zeros(1, device="cuda:2")


def test_copies_are_counted_by_direction_memory_and_wait(cuda: SimulatedCuda) -> None:
    pageable, pinned = torch.ones(4), torch.ones(4, pin_memory=True)
    on_device = pageable.to("cuda:0")
    pinned[:2].to("cuda:0", non_blocking=True)
    on_device.copy_(pageable.pin_memory())
    pinned.copy_(on_device, non_blocking=True)
    pageable.copy_(on_device, non_blocking=True)
    assert on_device.to("cpu", non_blocking=True).is_pinned()
    assert cuda.counts.copies == {
        Copy("H2D", pinned=False, blocking=True): 1,
        Copy("H2D", pinned=True, blocking=False): 1,
        Copy("H2D", pinned=True, blocking=True): 1,
        Copy("D2H", pinned=True, blocking=False): 2,
        Copy("D2H", pinned=False, blocking=True): 1,  # the host waits for a copy to pageable memory
    }
    assert cuda.counts.blocking_copies == 3
    assert sum("test_simulator.py" in site for site in cuda.counts.sites) == 3


def test_launches_and_synchronisations_are_counted(cuda: SimulatedCuda) -> None:
    numbers = torch.zeros(4, 4, device="cuda")
    cuda.reset_counts()
    (numbers[1:].t().reshape(2, 6) @ numbers.view(-1)[:6]).add_(1)  # views launch nothing; the reshape copies
    assert cuda.counts.kernels == {"clone": 1, "mv": 1, "add_": 1}
    assert cuda.counts.waits == 0
    assert numbers.sum().item() == 0
    numbers[numbers > 0]
    torch.cuda.synchronize()
    assert cuda.counts.synchronisations == {"item": 1, "boolean mask": 1, "torch.cuda.synchronize": 1}
    cuda.reset_counts()
    numbers[numbers > 0] = 1.0  # one number
    assert cuda.counts.waits == 0
    numbers[[0, 1]] = 1.0  # the indices are copied
    assert cuda.counts.blocking_copies == 1


def test_an_asynchronous_copy_to_the_host_ends_at_its_event(cuda: SimulatedCuda) -> None:
    landing, event = torch.zeros(2, 2, pin_memory=True), torch.cuda.Event()
    landing[0].copy_(torch.ones(2, device="cuda"), non_blocking=True)
    event.record()
    landing[1].copy_(torch.ones(2, device="cuda"), non_blocking=True)
    assert landing.tolist() == [[0, 0], [0, 0]]
    event.synchronize()
    assert landing.tolist() == [[1, 1], [0, 0]]
    torch.cuda.current_stream().synchronize()
    assert landing.tolist() == [[1, 1], [1, 1]]
    assert (cuda.counts.event_waits, cuda.counts.waits) == (1, 1)


def test_pinned_memory_must_stay_until_the_device_has_read_it(cuda: SimulatedCuda) -> None:
    feed = torch.zeros(2, pin_memory=True)
    feed.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    feed[0] = 1
    feed.to("cuda", non_blocking=True)
    feed[0] = 2
    with pytest.raises(HazardError, match="overwritten"):
        torch.cuda.synchronize()


def captured(count: Tensor, **options: object) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """A graph that adds 1 to count and multiplies it by 10."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):  # type: ignore[arg-type]
        count.add_(1)
        tenfold = count * 10
    return graph, tenfold


def test_a_graph_runs_only_when_it_is_replayed(cuda: SimulatedCuda) -> None:
    count = torch.zeros(2, device="cuda")
    graph, tenfold = captured(count)
    assert count.tolist() == [0, 0]
    assert tenfold.isnan().all()
    cuda.reset_counts()
    for _ in range(3):
        graph.replay()
    assert (cuda.counts.launches, cuda.counts.graph_launches) == (0, 3)
    assert (count.tolist(), tenfold.tolist()) == ([3, 3], [30, 30])
    step = torch.tensor(5.0)
    with torch.cuda.graph(another := torch.cuda.CUDAGraph()):
        count.add_(step)
    step.fill_(100)
    another.replay()
    assert count.tolist() == [8, 8]
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


def test_a_capture_on_the_wrong_device_is_empty(cuda: SimulatedCuda) -> None:
    """torch.cuda.graph captures on the device that was current when its first stream was made."""
    count = torch.zeros(2, device="cuda:1")
    with pytest.warns(UserWarning, match="Graph is empty"):
        graph, _ = captured(count)
    assert count.tolist() == [1, 1]
    graph.replay()
    assert count.tolist() == [1, 1]
    with torch.cuda.device(1), pytest.warns(UserWarning, match="Graph is empty"):
        captured(count)
    with torch.cuda.device(1):
        graph, _ = captured(count, stream=torch.cuda.Stream())
    graph.replay()
    assert count.tolist() == [3, 3]


@pytest.mark.parametrize("illegal", ["item", "copy", "wait"])
def test_waiting_in_a_capture_breaks_it(cuda: SimulatedCuda, illegal: str) -> None:
    numbers = torch.zeros(2, device="cuda")

    def capture() -> None:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            try:
                if illegal == "item":
                    numbers.sum().item()
                elif illegal == "copy":
                    torch.tensor([1.0], device="cuda")
                else:
                    torch.cuda.synchronize()
            except RuntimeError as error:
                assert "not permitted when stream is capturing" in str(error)

    with pytest.raises(RuntimeError, match="previous error during capture"):
        capture()


def test_a_graph_copies_from_and_to_pinned_memory(cuda: SimulatedCuda) -> None:
    feed, landing = torch.zeros(2, pin_memory=True), torch.zeros(2, pin_memory=True)
    on_device, graph = torch.zeros(2, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        on_device.copy_(feed, non_blocking=True)
        landing.copy_(on_device + 1, non_blocking=True)
    feed.fill_(4)
    graph.replay()
    assert landing.tolist() == [0, 0]
    torch.cuda.synchronize()
    assert landing.tolist() == [5, 5]


def test_a_replay_after_the_memory_that_it_reads_was_freed(cuda: SimulatedCuda) -> None:
    count, step = torch.zeros(2, device="cuda"), torch.ones(2, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        count.add_(step)
    graph.replay()
    del step
    with pytest.raises(HazardError, match="freed"):
        graph.replay()


def test_a_pool_is_unusable_once_all_of_its_graphs_are_freed(cuda: SimulatedCuda) -> None:
    """While its memory is still reserved, torch 2.11 to 2.13 trip an assertion."""
    count, pool = torch.zeros(2, device="cuda"), torch.cuda.graph_pool_handle()
    one, held = captured(count, pool=pool)
    another = captured(count, pool=pool)[0]
    del one
    captured(count, pool=pool)
    del another
    with pytest.raises(RuntimeError, match="use_count > 0"):
        captured(count, pool=pool)
    del held
    torch.cuda.empty_cache()
    captured(count, pool=pool)


def test_a_product_in_a_capture_keeps_the_pool(cuda: SimulatedCuda) -> None:
    """Its workspace belongs to the stream and is allocated from the pool of the first graph that is captured there."""
    matrix, pool = torch.eye(2, device="cuda"), torch.cuda.graph_pool_handle()
    for again in (False, True):
        graph = torch.cuda.CUDAGraph()
        if again:
            with pytest.raises(RuntimeError, match="use_count > 0"):
                torch.cuda.graph(graph, pool=pool).__enter__()
        else:
            with torch.cuda.graph(graph, pool=pool):
                matrix @ matrix
        del graph
        torch.cuda.empty_cache()


def test_a_workspace_that_is_freed_with_another_graph() -> None:
    with simulated_cuda(frees_workspaces=True):
        matrix, pool = torch.eye(2, device="cuda"), torch.cuda.graph_pool_handle()
        graphs = [torch.cuda.CUDAGraph() for _ in range(3)]
        for graph in graphs[:2]:
            with torch.cuda.graph(graph, pool=pool):
                matrix @ matrix
        graphs[0].reset()
        graphs[1].replay()  # the memory is still the pool's
        with torch.cuda.graph(graphs[2], pool=pool):
            matrix @ matrix
        with pytest.raises(HazardError, match="workspace"):
            graphs[1].replay()


def test_memory_is_counted_and_runs_out(cuda: SimulatedCuda) -> None:
    cuda.limit_memory(4096)
    kept = torch.zeros(512, device="cuda")
    view = kept[3:].view(-1)
    assert torch.cuda.mem_get_info() == (2048, 4096)
    with pytest.raises(torch.OutOfMemoryError):
        torch.zeros(513, device="cuda")
    torch.zeros(512, device="cuda")
    del kept
    assert torch.cuda.memory_allocated() == 2048
    assert torch.cuda.mem_get_info()[0] == 0  # reserved
    del view
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] == 4096
    assert torch.cuda.mem_get_info(1)[0] > 4096


def test_allocations_fail_on_demand(cuda: SimulatedCuda) -> None:
    cuda.fail_allocation_after(1, times=2)
    for fails in (False, True, True, False):
        if fails:
            with pytest.raises(torch.OutOfMemoryError):
                torch.zeros(1, device="cuda")
        else:
            torch.zeros(1, device="cuda")
    cuda.fail_allocation_after(0, in_captures=True)
    count = torch.zeros(2, device="cuda")
    with pytest.raises(torch.OutOfMemoryError):
        captured(count)
    assert count.tolist() == [0, 0]
    captured(count)


def test_a_lost_device_fails_at_every_call(cuda: SimulatedCuda) -> None:
    numbers, elsewhere = torch.zeros(2, device="cuda"), torch.zeros(2, device="cuda:1")
    cuda.lose(0)
    for call in (lambda: numbers + 1, torch.cuda.synchronize, lambda: numbers.cpu(), torch.cuda.empty_cache):
        with pytest.raises(RuntimeError, match="CUDA error"):
            call()
    assert (elsewhere + 1).tolist() == [1, 1]


def test_modules_move_with_their_tied_parameters(cuda: SimulatedCuda) -> None:
    embedding, output = nn.Embedding(5, 3), nn.Linear(3, 5)
    output.weight = embedding.weight
    network = nn.Sequential(embedding, output, nn.GRU(5, 4, batch_first=True)).eval()
    tokens = torch.tensor([[1, 2, 4]])
    with torch.inference_mode():
        expected = network(tokens)[0]
    network.to("cuda:1")
    assert output.weight is embedding.weight
    assert {p.device for p in network.parameters()} == {torch.device("cuda", 1)}
    with torch.inference_mode():
        torch.testing.assert_close(network(tokens.to("cuda:1"))[0].cpu(), expected)


def test_torch_is_as_before_afterwards() -> None:
    before = (torch.cuda.is_available(), torch.cuda.Stream, torch.cuda.CUDAGraph, torch.cuda.graph_pool_handle)
    with simulated_cuda():
        assert torch.cuda.is_available()
    assert (torch.cuda.is_available(), torch.cuda.Stream, torch.cuda.CUDAGraph, torch.cuda.graph_pool_handle) == before
    assert torch.tensor([1.0]).add(1).item() == 2
