"""`python -m build`, and the wheel installed into a virtual environment away from the sources."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from models.backends.native.build import EVERY, file_name, library
from models.backends.native.cpu import architecture
from tests.readme import ROOT
from tests.serving import serving

pytestmark = pytest.mark.slow
PACKAGES = ("app", "models", "parlance", "training")


def copied_sources(folder: Path) -> Path:
    """The files that git knows, as a release is built from a fresh clone."""
    for name in tracked():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    source = copied_sources(folder / "source")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment_with(wheel, tmp_path_factory.mktemp("venv"))


def environment_with(wheel: Path, folder: Path) -> Path:
    """Folder of the programs of a virtual environment with the wheel; its dependencies are those of the tests."""
    venv.create(folder, with_pip=False)
    purelib = sysconfig.get_path("purelib", vars={"base": str(folder)})
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--no-deps", str(wheel)]
    subprocess.run(pip, cwd=folder, env=without_sources(), check=True, capture_output=True, timeout=300)
    Path(purelib, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def without_sources() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def tracked() -> list[str]:
    """Files of the packages, and what a build reads beside them."""
    names = [*PACKAGES, "pyproject.toml", "README.md", "LICENSE", "Makefile"]
    listed = subprocess.run(["git", "ls-files", *names], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def test_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = {name for name in content.namelist() if ".dist-info/" not in name}
    assert names == {name for name in tracked() if name.startswith(tuple(f"{package}/" for package in PACKAGES))}


def test_installed_command_serves_translates_and_says_its_name(
    installed: Path, tiny_checkpoints: Path, tmp_path: Path
) -> None:
    def run(*arguments: str, text: str = "") -> str:
        return subprocess.run(
            [installed / "parlance", *arguments],
            cwd=tmp_path, env=without_sources(), input=text, capture_output=True, text=True, check=True, timeout=120,
        ).stdout  # fmt: skip

    assert run("--version").startswith("parlance ")
    translators = [folder for folder in sorted(tiny_checkpoints.iterdir()) if "de-en" in folder.name]
    assert run("translate", str(translators[0]), text="ich\n").count("\n") == 1
    with serving(
        tiny_checkpoints, tmp_path, ("-m", "parlance", "serve", "--no-demo"), python=installed / "python"
    ) as server:
        assert server.ask("/health/ready")
        assert server.ask("/translate", {"q": "ich", "source": "de", "target": "en"})["translatedText"]
        for page in ("/", "/docs"):
            assert b"<html" in server.page(page)


LOADED = """
from models.backends.native.build import fp32_library, library, training_library
print(*(loaded._name for loaded in (library(), fp32_library(), training_library())), sep="\\n")
"""


@pytest.mark.skipif(library() is None, reason="no C compiler, or a CPU that no kernel of ours is for")
def test_a_wheel_with_kernels_needs_no_compiler(tmp_path: Path) -> None:
    source = copied_sources(tmp_path / "source")
    make = ["make", "wheel", "-o", ".venv/.installed-dev", f"RUN={shlex.quote(sys.executable)}"]
    subprocess.run(make, cwd=source, env=without_sources(), check=True, capture_output=True, timeout=600)
    assert not list(source.rglob("*.so"))
    (made,) = (source / "dist").glob("*.whl")
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert made.name.endswith(f"-py3-none-{platform}.whl")
    own = [variant for variant in EVERY if variant.architecture in ("", architecture())]
    with zipfile.ZipFile(made) as content:
        kernels = {Path(name).name for name in content.namelist() if name.endswith(".so")}
    assert kernels == {file_name(variant) for variant in own}
    programs = environment_with(made, tmp_path / "venv")
    cache = tmp_path / "cache"
    environment = {**without_sources(), "CC": "false", "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        [programs / "python", "-c", LOADED],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    loaded = done.stdout.split()
    assert len(loaded) == 3
    assert all(Path(name).is_relative_to(tmp_path / "venv") for name in loaded)
    assert not cache.exists()
