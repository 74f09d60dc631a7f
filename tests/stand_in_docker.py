"""A stand-in for `docker compose`: runs the commands of docker-compose.yml on this machine, without containers.

    python -m tests.stand_in_docker compose run --rm --no-deps SERVICE COMMAND… | up --detach | down

It reads .env, hands on the variables that a service names, runs what a service depends on before it, and has folders in
.volumes/ in place of the volumes. `make image-check` runs the real image."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}")
VOLUMES = Path(".volumes")
SERVER = VOLUMES / "api.pid"


def environment() -> dict[str, str]:
    """The shell's variables, and those of .env that the shell does not set."""
    lines = Path(".env").read_text().splitlines() if Path(".env").exists() else []
    return {**dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")), **os.environ}


def service(name: str, given: dict[str, str]) -> dict[str, Any]:
    text = VARIABLE.sub(lambda match: given.get(match[1]) or match[2] or "", Path("docker-compose.yml").read_text())
    found: dict[str, Any] = yaml.safe_load(text)["services"][name]
    return found


def process_of(name: str, given: dict[str, str], command: list[str] | None = None) -> dict[str, Any]:
    """args and env of subprocess.Popen. Variables that neither the service nor the image names are the machine's."""
    described = service(name, given)
    variables = {
        key: given.get(key) if value is None else str(value) for key, value in described.get("environment", {}).items()
    }
    dockerfile = Path("Dockerfile").read_text()
    args = (
        command
        or described.get("command")
        or yaml.safe_load(re.findall(r"^CMD (\[.*\])$", dockerfile, re.MULTILINE)[-1])
    )
    image = {"PARLANCE_CHECKPOINTS": "/checkpoints", "PARLANCE_DATA": "/data"}
    host, port, _ = described["ports"][0].split(":") if "ports" in described else ("", "", "")
    image |= {"PARLANCE_HOST": host, "PARLANCE_PORT": port} if port else {}
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PARLANCE_", "HF_"))}
    env = {**own, **image, **{key: value for key, value in variables.items() if value is not None}}
    for volume in ("checkpoints", "data"):
        folder = VOLUMES.absolute() / volume
        folder.mkdir(parents=True, exist_ok=True)
        env = {key: re.sub(rf"^/{volume}\b", str(folder), value) for key, value in env.items()}
        args = [re.sub(rf"(?<![\w.])/{volume}\b", shlex.quote(str(folder)), word).replace("$$", "$") for word in args]
    return {"args": args, "env": env}


def main(arguments: list[str]) -> int:
    given = environment()
    match arguments:
        case ["compose", "run", "--rm", "--no-deps", name, *command]:
            return subprocess.run(**process_of(name, given, command), check=False).returncode
        case ["compose", "up", "--detach"]:
            for name in ("models", "train"):
                if status := subprocess.run(**process_of(name, given), check=False).returncode:
                    return status
            with (VOLUMES / "api.log").open("ab") as log:
                server = subprocess.Popen(
                    **process_of("api", given), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            SERVER.write_text(str(server.pid))
        case ["compose", "down"]:
            os.killpg(int(SERVER.read_text()), signal.SIGTERM)
            SERVER.unlink()
        case _:
            print(f"stand-in for docker: there is no {shlex.join(arguments)}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
