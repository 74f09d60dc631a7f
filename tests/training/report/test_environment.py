"""What a card says of the machine: all processes that shared the run, not the one that writes."""

from __future__ import annotations

import os

import pytest
import torch

from training.report.card_writer import hardware_summary

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("processes", "machines", "wanted"),
    [
        (1, 1, "1 thread"),
        (2, 1, "2 processes of 1 thread each"),
        (16, 2, "16 processes on 2 machines, of 1 thread each"),
    ],
)
def test_hardware_names_threads_per_process(processes: int, machines: int, wanted: str) -> None:
    cores = os.cpu_count() or 1
    assert f", {cores} core{'s' if cores > 1 else ''}, {wanted}, " in f"{hardware_summary(CPU, processes, machines)}, "


def test_hardware_names_the_machines_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        name, total_memory = "NVIDIA H100", 80 << 30

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    device = torch.device("cuda", 0)
    assert hardware_summary(device).startswith("NVIDIA H100, 1 of 8, 80 GiB; ")
    assert hardware_summary(device, 4).startswith("NVIDIA H100, 4 of 8, 80 GiB each; ")
    assert hardware_summary(device, 16, 2).startswith("NVIDIA H100, 8 of 8, 80 GiB each; ")
