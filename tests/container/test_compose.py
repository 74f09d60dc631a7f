"""docker-compose.yml: hardened services, and one that fetches models and never overwrites existing ones."""

from __future__ import annotations

import os
import re
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


def test_there_are_three_services_and_two_volumes():
    assert sorted(SERVICES) == ["api", "api-gpu", "models"]
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
    assert service["depends_on"] == {"models": {"condition": "service_completed_successfully"}}
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
    assert "ports" not in SERVICES["models"]


def test_only_the_gpu_server_is_in_the_gpu_profile_and_reserves_devices():
    assert {name: service.get("profiles") for name, service in SERVICES.items()} == {
        "models": None,
        "api": None,
        "api-gpu": ["gpu"],
    }
    (device,) = SERVICES["api-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    builds = {name: (service["image"], service["build"]["args"]["TORCH"]) for name, service in SERVICES.items()}
    assert builds == {
        "models": ("parlance:cpu", "cpu"),
        "api": ("parlance:cpu", "cpu"),
        "api-gpu": ("parlance:cuda", "cuda"),
    }


IMPORTED = "import everyday lyrics-zh --into /checkpoints"


@pytest.fixture
def run_models(tmp_path):
    """Runs the command of the service `models` with a folder in place of /checkpoints and a recorder in place of
    parlance, which makes a checkpoint of the name `everyday`."""
    models, volume, calls = SERVICES["models"], tmp_path / "volume", tmp_path / "calls"
    volume.mkdir()
    recorder = tmp_path / "bin" / "parlance"
    recorder.parent.mkdir()
    recorder.write_text(
        '#!/bin/sh\necho "$@" >> "$CALLS"\n[ "$2" = everyday ] || exit "$STATUS"\n'
        'mkdir "$5/everyday" && touch "$5/everyday/config.json"\n'
    )
    recorder.chmod(0o755)
    shell, flags, script = models["command"]
    script = script.replace("$$", "$").replace("/checkpoints", str(volume))

    def run(model: str = "", status: int = 0) -> tuple[int, list[str]]:
        calls.write_text("")
        path = f"{recorder.parent}:{os.environ['PATH']}"
        environment = {"PATH": path, "CALLS": str(calls), "MODEL": model, "STATUS": str(status)}
        done = subprocess.run([shell, flags, script], env=environment, capture_output=True, timeout=20)
        return done.returncode, calls.read_text().replace(str(volume), "/checkpoints").splitlines()

    return volume, run


def test_models_are_fetched_with_the_hub_s_cache_on_the_volume():
    models = SERVICES["models"]
    assert "network_mode" not in models and models["restart"] == "no"
    assert models["volumes"] == ["${CHECKPOINTS:-checkpoints}:/checkpoints"]
    assert models["environment"]["HF_HOME"].startswith("/checkpoints/")  # /tmp is memory
    assert models["healthcheck"] == {"disable": True}


def test_empty_volume_is_filled_once(run_models):
    volume, run = run_models
    (volume / "lost+found").mkdir()  # what a fresh ext4 volume holds
    (volume / ".huggingface").mkdir()  # what a download that broke off has left
    assert run() == (0, [IMPORTED])
    assert run() == (0, [])


def test_volume_with_a_model_is_left_unchanged(run_models):
    volume, run = run_models
    (volume / "mine").mkdir()
    (volume / "mine" / "config.json").write_text("{}")
    assert run() == (0, [])
    assert [path.name for path in volume.iterdir()] == ["mine"]


@pytest.mark.parametrize(("status", "expected"), [(0, 0), (75, 0), (2, 0), (143, 143)])
def test_a_model_that_cannot_be_had_is_told_by_the_server(run_models, status, expected):
    """75: not now; 2: never; 143: ended by a signal, after which nothing follows."""
    _, run = run_models
    calls = ["import de-en,en-fr --into /checkpoints", *([IMPORTED] if expected == 0 else [])]
    ended, made = run("de-en,en-fr", status)
    assert (ended != 0, made) == (expected != 0, calls)
