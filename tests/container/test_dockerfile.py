"""The Dockerfile keeps its promises: a pinned base, two kinds of stage, an unprivileged user, a health check."""

from __future__ import annotations

import fnmatch
import http.server
import json
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
import yaml

from parlance import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def instructions() -> list[tuple[str, str]]:
    """(keyword, the rest) in order, with comments dropped and continued lines joined."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = text.replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def stages() -> list[list[tuple[str, str]]]:
    results: list[list[tuple[str, str]]] = []
    for keyword, rest in instructions():
        if keyword == "FROM":
            results.append([])
        if results:
            results[-1].append((keyword, rest))
    return results


def only(stage: list[tuple[str, str]], keyword: str) -> str:
    (value,) = [rest for instruction, rest in stage if instruction == keyword]
    return value


FINAL = stages()[-1]


def arguments(stage: list[tuple[str, str]]) -> dict[str, str]:
    return dict(rest.split("=", 1) for keyword, rest in stage if keyword == "ARG")


def environment(stage: list[tuple[str, str]]) -> dict[str, str]:
    pairs = [pair for keyword, rest in stage if keyword in ("ENV", "LABEL") for pair in shlex.split(rest)]
    return dict(pair.split("=", 1) for pair in pairs)


def health_command() -> list[str]:
    return json.loads(only(FINAL, "HEALTHCHECK").split("CMD", 1)[1])


def test_base_image_is_pinned_and_shared_by_the_stages():
    keyword, base = instructions()[0]
    assert (keyword, base) == ("ARG", "BASE_IMAGE=docker.io/library/python:3.11-slim-bookworm")
    assert [stage[0][1] for stage in stages()] == [
        "${BASE_IMAGE} AS dependencies",
        "dependencies AS build",
        "${BASE_IMAGE}",
    ]


def test_torch_is_the_cpu_build_by_default_from_a_replaceable_index():
    assert arguments(stages()[0]) == {
        "TORCH": "cpu",
        "EXTRAS": "otel",
        "TORCH_INDEX": "default",
        "TORCH_HASHES": "required",
    }


def test_native_kernels_are_built_if_possible():
    (kernels,) = [rest for keyword, rest in stages()[1] if keyword == "RUN" and "models.backends.native.build" in rest]
    assert kernels.index("command -v cc") < kernels.index("apt-get") < kernels.index("models.backends.native.build")
    assert '-m "$kernels" || echo' in kernels
    assert "set -e" not in kernels
    assert arguments(stages()[1]) == {"TORCH": "cpu"}
    assert '[ "$TORCH" = cuda ]; then gpu=models.backends.cuda.build' in kernels


def test_final_stage_copies_dependencies_and_sources_separately():
    assert [rest for keyword, rest in FINAL if keyword == "COPY"] == [
        "--from=dependencies /opt/parlance /opt/parlance",
        "--from=build /opt/parlance/code /opt/parlance/code",
    ]
    commands = " ".join(rest for keyword, rest in FINAL if keyword == "RUN")
    assert not re.search(r"\b(apt|apt-get|pip|curl|wget)\b", commands)
    assert not [rest for keyword, rest in FINAL if keyword == "ADD"]


def test_user_is_unprivileged_and_owns_the_checkpoints():
    assert only(FINAL, "USER") == "10001:10001"
    keywords = [keyword for keyword, _ in FINAL]
    assert keywords.index("RUN") < keywords.index("USER")
    setup = only(FINAL, "RUN")
    assert "useradd --uid 10001 --gid 10001" in setup
    assert "install -d -o 10001 -g 10001 /checkpoints /data" in setup


def test_container_writes_to_tmp_only():
    values = environment(FINAL)
    assert values["HOME"] == "/tmp"
    caches = ("MPLCONFIGDIR", "CUDA_CACHE_PATH", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    assert all(values[name].startswith("/tmp/") for name in caches)
    assert int(values["CUDA_CACHE_MAXSIZE"]) <= 1 << 28  # bytes, of a /tmp that compose limits to 1 GiB
    assert values["PYTHONDONTWRITEBYTECODE"] == "1"
    assert values["PARLANCE_CHECKPOINTS"] == "/checkpoints"
    assert values["PARLANCE_DATA"] == "/data"


def test_server_is_process_1_and_receives_signals():
    assert json.loads(only(FINAL, "CMD")) == ["parlance", "serve", "--no-demo"]
    values = environment(FINAL)  # a container's own loopback address could not be reached from outside
    assert (values["PARLANCE_HOST"], values["PARLANCE_PORT"]) == ("0.0.0.0", "8000")
    assert only(FINAL, "STOPSIGNAL") == "SIGTERM"
    assert only(FINAL, "EXPOSE") == "8000"
    assert "ENTRYPOINT" not in [keyword for keyword, _ in FINAL]


def test_compose_uses_the_same_health_check():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    for name in ("api", "api-gpu"):
        check = services[name]["healthcheck"]
        assert check["test"] == ["CMD", *health_command()]
        flags = only(FINAL, "HEALTHCHECK").split("CMD")[0].split()
        assert flags == [
            f"--interval={check['interval']}",
            f"--timeout={check['timeout']}",
            f"--start-period={check['start_period']}",
            f"--retries={check['retries']}",
        ]


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (404, False), (None, False)])
def test_health_check_is_the_readiness_endpoint(status, healthy):
    calls = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            calls.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        port = server.server_address[1]
        if status is None:
            server.server_close()
        else:
            threading.Thread(target=server.handle_request, daemon=True).start()
        program, *rest = health_command()
        assert program == "python"
        call = [sys.executable, *(word.replace("8000", str(port)) for word in rest)]
        proxied = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}  # must not be requested
        done = subprocess.run(call, env=proxied, capture_output=True, timeout=20)
    assert (done.returncode == 0) is healthy
    assert calls == ([] if status is None else ["/health/ready"])


def test_image_labels_equal_pyproject():
    labels = environment(FINAL)
    prefix = "org.opencontainers.image."
    assert labels[prefix + "title"] == "Parlance"
    assert labels[prefix + "description"] == PROJECT["description"]
    assert labels[prefix + "licenses"] == PROJECT["license"]
    assert labels[prefix + "version"] == "${VERSION}"
    assert labels[prefix + "revision"] == "${REVISION}"
    assert arguments(FINAL) == {"VERSION": __version__, "REVISION": "unknown"}


def test_build_context_is_exactly_what_is_copied():
    copied = {
        path
        for stage in stages()
        for keyword, rest in stage
        if keyword == "COPY" and not rest.startswith("--from")
        for path in rest.split()[:-1]
    }
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied
    assert {rule for rule in rules[1:] if not rule.startswith("!")} == {"**/__pycache__", "**/*.pyc"}


@pytest.mark.parametrize("name", ["Dockerfile", ".dockerignore", "docker-compose.yml"])
def test_container_files_hold_no_secret_or_local_path(name):
    text = (ROOT / name).read_text("utf-8")
    assert not re.search(r"(?i)password|secret|token\s*=|/home/|/root/|/Users/", text)


def test_scripts_are_executable():
    for name in ("image-check", "compose-check"):
        script = ROOT / ".ci" / name
        assert script.stat().st_mode & 0o111
        assert script.read_text("utf-8").startswith("#!/usr/bin/env bash\n")
        assert subprocess.run(["bash", "-n", str(script)], timeout=20).returncode == 0
    assert any(fnmatch.fnmatch("/.image/", line) for line in (ROOT / ".gitignore").read_text().splitlines())
