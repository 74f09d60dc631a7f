"""requirements/*.txt: every package that an image installs, by version and by the SHA-256 of its files.

    python -m tests.container.requirements [--torch-index URL]

asks uv (`pip install uv`) to resolve pyproject.toml within constraints.txt, and writes the files anew. A pin alone
would take whatever an index sends under that version; with its hash, a changed file ends the build. PyTorch's wheels
for CPUs come from an index of their own, which --torch-index names: https://download.pytorch.org/whl/cpu. Without it,
torch-cpu.txt stays as it is, and a test fails once its version is another than that of constraints.txt."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "requirements"
HEADS = {
    "base": "What every image installs beside torch.",
    "torch-cpu": "PyTorch's wheels for CPUs, on Linux, of its own index.",
    "torch-cuda": "PyTorch's wheels of the package index, which are for CUDA.",
    "cuda": "What PyTorch's wheels for CUDA need beside base.txt.",
    "ray": "What the extra `ray` needs beside base.txt.",
    "build": "What builds Parlance's own wheel.",
}
OF_CUDA = re.compile(r"nvidia-|cuda-|triton$")
# Where an image may run. bookworm has Python 3.11.2, the official image the newest 3.11.
PLATFORMS = [
    {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": machine}
    | {"platform_python_implementation": "CPython", "implementation_name": "cpython"}
    | {"python_version": version.rsplit(".", 1)[0], "python_full_version": version}
    for machine in ("x86_64", "aarch64")
    for version in ("3.11.2", "3.11.14", "3.12.12", "3.13.9", "3.14.0")
]


class Entry:
    """One package of a file. text: its lines, the version first and a hash on each of the others."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.requirement = Requirement(text.splitlines()[0].removesuffix("\\"))
        self.name = canonicalize_name(self.requirement.name)
        (self.version,) = (specifier.version for specifier in self.requirement.specifier)
        self.hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})(?![0-9a-f])", text)


def entries(text: str) -> dict[str, Entry]:
    """Canonical name -> entry."""
    text = "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))
    found = [Entry(match[0].rstrip()) for match in re.finditer(r"^\S(?:.*\\\n)*.*$", text, re.MULTILINE)]
    return {entry.name: entry for entry in found}


def locked(name: str) -> dict[str, Entry]:
    return entries((FOLDER / f"{name}.txt").read_text("utf-8"))


def declared(*extras: str) -> list[str]:
    """The requirements of pyproject.toml, with those of extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [*project["dependencies"], *(each for name in extras for each in project["optional-dependencies"][name])]


def for_linux(marker: Marker | None) -> bool:
    return marker is None or any(marker.evaluate(platform) for platform in PLATFORMS)


def resolved(requirements: list[str], *options: str) -> dict[str, Entry]:
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"]
    command += ["--generate-hashes", "--no-annotate", "--no-header", "-c", str(ROOT / "constraints.txt"), *options, "-"]
    done = subprocess.run(command, input="\n".join(requirements), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr or "uv has failed")
    return {name: entry for name, entry in entries(done.stdout).items() if for_linux(entry.requirement.marker)}


def write(name: str, chosen: dict[str, Entry]) -> None:
    head = f"# {HEADS[name]} python -m tests.container.requirements writes this file.\n"
    (FOLDER / f"{name}.txt").write_text(head + "".join(f"{entry.text}\n" for _, entry in sorted(chosen.items())))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.container.requirements")
    parser.add_argument("--torch-index", help="an index of PyTorch's wheels for CPUs, whose hashes are added")
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    every = resolved(declared("otel"))
    if options.torch_index:
        cpu = f"torch=={every['torch'].version}+cpu"
        write("torch-cpu", resolved([cpu], "--no-deps", "--default-index", options.torch_index))
    write("torch-cuda", {"torch": every["torch"]})
    write("cuda", {name: entry for name, entry in every.items() if OF_CUDA.match(name)})
    write("base", {name: entry for name, entry in every.items() if name != "torch" and not OF_CUDA.match(name)})
    with_ray = resolved(declared("otel", "ray"))
    write("ray", {name: entry for name, entry in with_ray.items() if name not in every})
    write("build", resolved(["setuptools"]))


if __name__ == "__main__":
    main()
