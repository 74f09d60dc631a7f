"""An image installs what requirements/ lists and nothing else: every package by its version and by the hashes of its
files, in agreement with constraints.txt and pyproject.toml."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.container.requirements import FOLDER, HEADS, OF_CUDA, declared, entries, for_linux, locked
from tests.container.test_dockerfile import ROOT, stages
from tests.test_licences import packages

FILES = {name: locked(name) for name in HEADS}
PINS = {
    canonicalize_name(name): version
    for name, _, version in (
        line.partition("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()[1:]
    )
}


@pytest.mark.parametrize("name", HEADS)
def test_every_package_has_the_hashes_of_its_files(name: str) -> None:
    assert FILES[name]
    for entry in FILES[name].values():
        assert entry.hashes, f"{entry.name} in requirements/{name}.txt"
        assert len(entry.text.splitlines()) == 1 + len(entry.hashes), entry.name
        assert for_linux(entry.requirement.marker), entry.name


def test_files_are_exactly_these() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.txt" for name in HEADS}
    names = [name for file in ("base", "torch-cuda", "cuda", "ray") for name in FILES[file]]
    assert len(names) == len(set(names)), "a package is in one file of those that are installed together"
    assert set(FILES["torch-cpu"]) == set(FILES["torch-cuda"]) == {"torch"}
    assert all(OF_CUDA.match(name) for name in FILES["cuda"])


def test_versions_are_those_of_the_constraints() -> None:
    """CUDA's libraries, and what only other versions of Python need, are installed on no machine that tests run on."""
    unpinned = set()
    for file in FILES.values():
        for entry in file.values():
            if entry.name not in PINS:
                unpinned.add(entry.name)
            else:
                assert entry.version.removesuffix("+cpu") == PINS[entry.name], entry.name
    assert {name for name in unpinned if not OF_CUDA.match(name)} <= {"async-timeout", "httpx2-jsfetch"}


def test_what_the_project_declares_is_listed() -> None:
    for file, extras in (("base", ("otel",)), ("ray", ("ray",))):
        listed = FILES["base"] | FILES["torch-cuda"] | FILES[file]
        for requirement in map(Requirement, declared(*extras)):
            entry = listed[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(entry.version), requirement


def test_what_a_package_needs_is_listed() -> None:
    """`pip install --no-deps` would leave it out. Walks the installed packages, as docs/licences.md does."""
    listed = FILES["base"] | FILES["torch-cuda"]
    for name, found in packages().items():
        assert listed[name].version == found.version.partition("+")[0], name


def test_torch_for_cpus_and_for_cuda_are_told_apart() -> None:
    """By version and hash; the hashes here are those of CPython 3.11 on x86-64. An index may have both."""
    cpu, cuda = FILES["torch-cpu"]["torch"], FILES["torch-cuda"]["torch"]
    assert (cpu.version, cuda.version) == (f"{PINS['torch']}+cpu", PINS["torch"])
    assert "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b" in cpu.hashes
    assert "60fcdcb2f3876e21146cb4524ef06397d727ca9ad5f020818547e25075fe3cb7" in cuda.hashes
    assert not set(cpu.hashes) & set(cuda.hashes)


def test_everything_that_the_dockerfile_installs_is_checked() -> None:
    """But torch where TORCH_HASHES is empty, and our own wheel, which the build has just made without an index."""
    lines = [rest for stage in stages()[:2] for keyword, rest in stage if keyword == "RUN"]
    installs = [part.strip() for line in lines for part in re.split(r";|&&", line) if "/bin/pip" in part]
    installs = [part for part in installs if " install " in part or " wheel " in part]
    checked = [part for part in installs if "--require-hashes" in part or '"$@"' in part]
    own = [part for part in installs if "wheel" in part]
    unchecked = [part for part in installs if part not in checked + own]
    assert len(checked) == 3 and all("--no-deps --only-binary :all:" in part for part in checked)
    assert len(own) == 2 and "--no-build-isolation" in own[0] and "--no-index" in own[1]
    assert all("--no-deps" in part for part in own)
    (torch,) = unchecked
    assert torch.endswith("install -c constraints.txt torch")
    (line,) = [line for line in lines if torch in line]
    assert torch.startswith("then ") and line.split(torch)[0].endswith('[ -z "$TORCH_HASHES" ]; ')
    assert any('set -- --require-hashes -r "requirements/torch-$TORCH.txt"' in line for line in lines)


def test_entries_are_read_as_pip_reads_them() -> None:
    hashes = f"    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{'1' * 64}\n"
    text = f"# a comment\na-b==1 ; sys_platform == 'linux' \\\n{hashes}C.d==2\n"
    found = entries(text)
    assert {name: (entry.version, entry.hashes) for name, entry in found.items()} == {
        "a-b": ("1", ["0" * 64, "1" * 64]),
        "c-d": ("2", []),
    }


@pytest.mark.slow  # a pip of its own
def test_pip_refuses_another_file_of_the_same_version(tmp_path: Path) -> None:
    """The command of the Dockerfile, with a wheel that somebody has put in the place of the true one."""
    wheel = tmp_path / "six-1.17.0-py2.py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("six.py", "planted = True\n")
        archive.writestr("six-1.17.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: six\nVersion: 1.17.0\n")
        archive.writestr("six-1.17.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("six-1.17.0.dist-info/RECORD", "")
    entry = next(file["six"] for file in FILES.values() if "six" in file)
    (tmp_path / "six.txt").write_text(entry.text + "\n")
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--no-index", "--find-links", str(tmp_path)]
    pip += ["--target", str(tmp_path / "into"), "--no-deps", "--only-binary", ":all:"]
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull}
    for options, status in ((["--require-hashes", "-r", str(tmp_path / "six.txt")], 1), (["six==1.17.0"], 0)):
        done = subprocess.run([*pip, *options], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert ("DO NOT MATCH THE HASHES" in done.stderr) == bool(status)
        assert (tmp_path / "into" / "six.py").exists() == (not status)
