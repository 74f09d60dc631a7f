"""docker-compose.yml: hardened services, and a train service that never overwrites existing models."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.server import FLUSH_S
from app.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
SERVERS = ("api", "api-gpu")


def seconds(duration: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(s|m)", duration).groups()
    return int(number) * {"s": 1, "m": 60}[unit]


def test_there_are_four_services_and_two_volumes():
    assert sorted(SERVICES) == ["api", "api-gpu", "models", "train"]
    assert COMPOSE["volumes"] == {"checkpoints": None, "data": None}
    assert "version" not in COMPOSE  # with one, docker-compose 1.29 refuses the conditions below


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_is_locked_down(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["tmpfs"] == (["/tmp:size=1g"] if name == "api-gpu" else ["/tmp"])
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["init"] is True
    assert service["mem_limit"] == "${MEMORY:-8g}"
    assert service["pids_limit"] == 1024
    assert not {"privileged", "cap_add", "user", "pid", "ipc"} & set(service)


@pytest.mark.parametrize("name", SERVERS)
def test_servers_wait_for_the_models_and_only_read_them(name):
    service = SERVICES[name]
    assert service["depends_on"] == {"train": {"condition": "service_completed_successfully"}}
    assert service["volumes"] == ["${CHECKPOINTS:-checkpoints}:/checkpoints:ro", "${DATA:-data}:/data"]
    assert service["restart"] == "unless-stopped"
    assert "command" not in service  # the image's own


@pytest.mark.parametrize("name", SERVERS)
def test_servers_have_longer_to_stop_than_they_take_to_drain(name):
    delay_s, drain_s = (Settings.model_fields[field].default for field in ("shutdown_delay_s", "drain_timeout_s"))
    assert seconds(SERVICES[name]["stop_grace_period"]) > delay_s + drain_s + FLUSH_S


@pytest.mark.parametrize("name", SERVERS)
def test_compose_passes_every_setting_on(name):
    handed_on = SERVICES[name]["environment"]
    image = {
        "PARLANCE_CHECKPOINTS",
        "PARLANCE_DATA",
        "PARLANCE_HOST",
        "PARLANCE_PORT",
    }  # the image says where; PARLANCE_HOST and PORT map it
    expected = {PREFIX + field.upper() for field in Settings.model_fields} - image
    expected |= {"CUDA_VISIBLE_DEVICES"} if name == "api-gpu" else set()
    assert set(handed_on) == expected, "docker-compose.yml's environment and app/settings.py differ"
    own = {
        "PARLANCE_MODELS": "${MODEL:-}",
        # the server sees the container's address, and cannot know that only browsers of this machine reach it
        "PARLANCE_ALLOWED_HOSTS": "${PARLANCE_ALLOWED_HOSTS:-localhost}",
    }
    assert {variable: handed_on[variable] for variable in own} == own
    values = {**handed_on, **dict.fromkeys(own)}
    assert set(values.values()) == {None}  # no value of its own: the shell's, or the server's default


def test_server_listens_on_localhost_by_default():
    assert SERVICES["api"]["ports"] == ["${PARLANCE_HOST:-127.0.0.1}:${PORT:-8000}:8000"]
    assert SERVICES["api-gpu"]["ports"] == ["${PARLANCE_HOST:-127.0.0.1}:${GPU_PORT:-8001}:8000"]
    assert "ports" not in SERVICES["train"]


def test_only_the_gpu_server_is_in_the_gpu_profile_and_reserves_devices():
    assert {name: service.get("profiles") for name, service in SERVICES.items()} == {
        "models": None,
        "train": None,
        "api": None,
        "api-gpu": ["gpu"],
    }
    (device,) = SERVICES["api-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    builds = {name: (service["image"], service["build"]["args"]["TORCH"]) for name, service in SERVICES.items()}
    assert builds == {
        "models": ("parlance:cpu", "cpu"),
        "train": ("parlance:cpu", "cpu"),
        "api": ("parlance:cpu", "cpu"),
        "api-gpu": ("parlance:cuda", "cuda"),
    }


def test_train_runs_once_with_a_writable_volume_and_no_network():
    train = SERVICES["train"]
    assert train["restart"] == "no"
    assert train["volumes"] == ["${CHECKPOINTS:-checkpoints}:/checkpoints"]
    assert train["network_mode"] == "none"
    assert train["healthcheck"] == {"disable": True}
    assert train["depends_on"] == {"models": {"condition": "service_completed_successfully"}}


@pytest.mark.parametrize(("status", "expected"), [(0, 0), (75, 0), (2, 0), (143, 1)])
def test_models_are_fetched_before_the_demo_is_trained(tmp_path, status, expected):
    """A model that cannot be had (75: now, 2: at all) is told by the server, which is not ready."""
    parlance = tmp_path / "parlance"
    parlance.write_text(f'#!/bin/sh\necho "$@" >> "$CALLS"\nexit {status}\n')
    parlance.chmod(0o755)
    models, calls = SERVICES["models"], tmp_path / "calls"
    assert "network_mode" not in models and models["restart"] == "no"
    assert models["volumes"] == SERVICES["train"]["volumes"]
    assert models["environment"]["HF_HOME"].startswith("/checkpoints/")  # /tmp is memory
    shell, flags, script = models["command"]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls)}
    for name, code in (("", 0), ("de-en,en-fr", expected)):
        command = [shell, flags, script.replace("$$", "$")]
        done = subprocess.run(command, env={**environment, "MODEL": name}, capture_output=True, timeout=20)
        assert done.returncode == code
    assert calls.read_text() == "import de-en,en-fr --into /checkpoints\n"


@pytest.fixture
def run_train(tmp_path):
    """Runs the train service's command with a folder in place of /checkpoints and a recorder in place of Python."""
    volume = tmp_path / "volume"
    volume.mkdir()
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\necho "$@" >> "$CALLS"\n[ -z "$FAIL" ] || exit 1\nmkdir -p "$5/demo-de-en"\n')
    python.chmod(0o755)
    calls = tmp_path / "calls"
    shell, flags, script = SERVICES["train"]["command"]
    script = script.replace("$$", "$").replace("/checkpoints", str(volume))

    def run(fail: str = "") -> tuple[int, list[str], list[str]]:
        calls.write_text("")
        environment = {"PATH": f"{python.parent}:{os.environ['PATH']}", "CALLS": str(calls), "FAIL": fail}
        done = subprocess.run([shell, flags, script], env=environment, capture_output=True, timeout=20)
        commands = calls.read_text().replace(str(volume), "/checkpoints").splitlines()
        return done.returncode, commands, sorted(path.name for path in volume.iterdir())

    return volume, run


DEMO = ["-m training demo --out /checkpoints/.demo"]


def test_empty_volume_is_filled_once(run_train):
    _, run = run_train
    assert run() == (0, DEMO, ["demo-de-en"])
    assert run() == (0, [], ["demo-de-en"])


def test_existing_volume_is_left_unchanged(run_train):
    volume, run = run_train
    (volume / "mine").mkdir()
    (volume / "mine" / "config.json").write_text("{}")
    assert run() == (0, [], ["mine"])
    assert (volume / "mine" / "config.json").read_text() == "{}"


def test_interrupted_training_restarts_and_is_never_served(run_train):
    volume, run = run_train
    (volume / "lost+found").mkdir()  # what a fresh ext4 volume holds counts as empty
    (volume / ".demo" / "half").mkdir(parents=True)
    for name in (".huggingface", ".opus-mt-de-en.new"):  # what a download that broke off has left
        (volume / name).mkdir()
    assert run(fail="yes") == (1, DEMO, [".huggingface", ".opus-mt-de-en.new", "lost+found"])
    shutil.rmtree(volume / ".huggingface")
    (volume / ".opus-mt-de-en.new").rmdir()
    (volume / ".demo" / "half").mkdir(parents=True)
    assert run() == (0, DEMO, ["demo-de-en", "lost+found"])
