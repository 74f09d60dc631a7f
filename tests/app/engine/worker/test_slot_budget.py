"""Slots from the free memory of a GPU. The memory is made up; the bytes of a slot are those of real caches."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import cast

import pytest
import torch

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import (
    LOGITS,
    MOST_SLOTS,
    ModelRunner,
    NoRoom,
    choose_slots,
    new_decoder,
    slot_bytes,
)
from app.engine.worker.scheduler import Scheduler
from models import checkpoint as checkpoints
from models.backends.select import decodable
from models.backends.torch.cuda_graph import Graphed, Recordable
from models.decoding.options import TokenRules
from models.interface import Precision
from models.networks.loading import load_network
from tests.cuda_simulator import simulated_cuda

MIB, GIB = 1 << 20, 1 << 30


def chosen(slot_mib: float, free_gib: float, total_gib: float = 80, **more: int) -> int:
    return choose_slots(
        "a",
        "cuda:0",
        slot_bytes=int(slot_mib * MIB),
        free_bytes=int(free_gib * GIB),
        total_bytes=int(total_gib * GIB),
        **more,
    ).slots


def test_slots_fill_the_free_memory_without_the_reserve() -> None:
    assert chosen(1.6, 70) == MOST_SLOTS
    assert chosen(200, 70) == 312  # (70 - 8) · 1024 / 200 = 317, in eights
    assert chosen(100, 12) == 40
    assert chosen(16, 8.25) == 16  # a quarter of a GiB: exactly the fewest


def test_models_to_come_get_an_equal_share_after_their_weights() -> None:
    alone, shared = chosen(100, 48), chosen(100, 48, others=3, others_bytes=8 * GIB)
    assert (alone, shared) == (408, 80)
    assert chosen(100, 10, others=3, others_bytes=8 * GIB) == 16  # at others' cost: one model that runs is better


def test_a_model_that_does_not_fit_is_refused_in_one_sentence() -> None:
    with pytest.raises(NoRoom) as refused:
        chosen(100, 9)
    assert str(refused.value) == (
        "a needs 16 slots of 100.00 MiB on cuda:0, which has 1.0 GiB for them (9.0 GiB free, 10% of 80.0 GiB kept in"
        " reserve): unload another model, end what else runs on this GPU, or use a larger one."
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_bytes_of_a_slot_are_those_of_the_caches(tiny_checkpoints: Path, precision: Precision) -> None:
    """A difference of two allocations that are far larger than the two that are measured."""
    for name in ("tiny-de-en", "tiny-lyrics"):
        checkpoint = checkpoints.read(tiny_checkpoints / name)
        network, vocabulary = load_network(checkpoint), checkpoint.tokenizers["target"].size
        config, built = checkpoint.config, decodable(network, precision)
        lengths = max(1, config.max_source_tokens), len(config.target_prefix) + 2 * config.max_new_tokens
        if name == "tiny-de-en":
            state = built.allocate(10, *lengths)
            cache = sum(layer.both.nbytes for layer in (*state.own, *state.source)) // 10
            element = 4 if precision == "fp32" else 2
            width = network.config.heads * network.config.head_width
            assert cache == element * 2 * width * network.config.decoder_layers * sum(lengths)
        else:
            state = built.allocate(10, *lengths)
            cache = (state.hidden.nbytes + state.memory.nbytes) // 10
        measured = slot_bytes(built, config, vocabulary)
        few = 4096 * max(1, vocabulary // 256)  # of lengths, tokens and flags
        assert cache <= measured - 4 * LOGITS * vocabulary <= cache + few


def loaded(root: Path, free_gib: float, *names: str, caplog: pytest.LogCaptureFixture) -> tuple[list[int], list[str]]:
    """Slots of each model in the order of the loads, all of which the process knows when the first begins."""
    runner = ModelRunner("cpu", 1, 0, "fp32", 4, name="cuda:1", memory=lambda: (int(free_gib * GIB), GIB))
    messages = [m.Load(name, str(root / name)) for name in names]
    with caplog.at_level(logging.INFO, "app"):
        for number, message in enumerate(messages):
            runner.install(message.name, runner.read(message), messages[number + 1 :])
    return [runner.models[name].slots for name in names], [text for text in caplog.messages if "slots of" in text]


def test_a_runner_takes_its_slots_from_memory_and_logs_why(
    tiny_checkpoints: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slots, lines = loaded(tiny_checkpoints, 0.5, "tiny-de-en", "tiny-lyrics", caplog=caplog)
    assert slots == [MOST_SLOTS, MOST_SLOTS]
    assert lines[0].startswith("tiny-de-en: 512 slots of 0.")
    assert "on cuda:1" in lines[0]
    assert ", 1 more model to load (" in lines[0]
    assert lines[1].endswith("512 MiB free, 10% of 1.0 GiB kept in reserve, at most 512")


def test_a_process_that_lacks_memory_says_so_and_goes_on(tiny_checkpoints: Path) -> None:
    runner = ModelRunner("cpu", 1, 0, name="cuda:0", memory=lambda: (0, GIB))
    replies = Scheduler(runner).handle(m.Load("tiny-lyrics@1", str(tiny_checkpoints / "tiny-lyrics")))
    assert isinstance(replies[0], m.LoadFailed)
    assert replies[0].reason.startswith("tiny-lyrics needs 16 slots of 0.0")
    assert replies[0].reason.endswith("or use a larger one.")


def test_the_current_device_is_that_of_the_process_and_holds_what_was_computed(tiny_checkpoints: Path) -> None:
    """On a simulated GPU whose allocations are counted, with the arrays of a step that stays on the device."""
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    rules, vocabulary = TokenRules(checkpoint.config.eos), checkpoint.tokenizers["target"].size
    with simulated_cuda(devices=2) as cuda:
        ModelRunner("cuda:1", 0, 8)
        assert torch.cuda.current_device() == 1
        built = Graphed(cast(Recordable, decodable(load_network(checkpoint, torch.device("cuda:1")), "fp32")))
        size = slot_bytes(built, checkpoint.config, vocabulary) - 4 * LOGITS * vocabulary
        held = []
        for slots in (1, 65):
            before = torch.cuda.memory_allocated(1)
            decoder = new_decoder(built, checkpoint.config, rules, slots, None)
            held.append(torch.cuda.memory_allocated(1) - before)
            del decoder
        assert (held[1] - held[0]) / 64 == pytest.approx(size, rel=0.02)
        assert cuda.devices[0].allocated_bytes == 0


def test_a_cpu_keeps_its_64_slots() -> None:
    assert (ModelRunner("cpu", 1, 0).slots, ModelRunner("cpu", 1, 7).slots) == (64, 7)
    assert torch.get_num_threads() == 1
