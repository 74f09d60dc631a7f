"""What the documents say is held against what is there."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from app.settings import PREFIX, Settings
from tests.readme import ROOT, examples

README = (ROOT / "README.md").read_text(encoding="utf-8")
SERVING = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
PROTOCOLS = (ROOT / "docs/protocols.md").read_text(encoding="utf-8")
DESIGN = (ROOT / "docs/design.md").read_text(encoding="utf-8")
PACKAGES = ("app", "app/engine", "models", "training", "benchmarks")


def docstring(package: str) -> str:
    return ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))) or ""


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_lists_its_files_and_only_these(package: str) -> None:
    listed = set(re.findall(r"^(\w+\.py|\w+/) ", docstring(package), re.MULTILINE))
    folder = ROOT / package
    there = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    there |= {f"{path.name}/" for path in folder.iterdir() if (path / "__init__.py").exists()}
    assert listed == there


def test_the_tree_in_the_readme_exists_and_names_every_top_level_entry() -> None:
    tree = re.search(r"^```\n(pyproject.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert tree
    folder, listed = "", set()
    for line in tree[1].splitlines():
        if re.match(r"\S+/ ", line):
            folder = line.split()[0]
            listed.add(folder)
            assert (ROOT / folder).is_dir(), line
        elif match := re.match(r"  ([\w./]+)", line):
            assert (ROOT / folder / match[1]).exists(), line
        else:
            listed.update(line.split())
    hidden = {"local", "build", "checkpoints", "data", "parlance.egg-info"}
    there = {p.name + "/" * p.is_dir() for p in ROOT.iterdir() if not p.name.startswith(".") and p.name not in hidden}
    assert listed == {name for name in there if name != "__pycache__/"}


def test_every_setting_stands_in_the_documents_with_its_default() -> None:
    for name, field in Settings.model_fields.items():
        line = f"| `{PREFIX}{name.upper()}` | `{field.default}` | {field.description} |"
        assert line in SERVING, f"docs/serving.md lacks: {line}"


def test_every_dependency_has_its_reason_and_its_pin() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = project.split("dependencies = [")[1].split("]\n")[0]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    table = DESIGN.split("## Why these dependencies")[1]
    for name in re.findall(r'"([a-zA-Z0-9-]+)', section):
        assert re.search(rf"\b{re.escape(name)}\b", table), f"no reason given for {name}"
        assert re.search(rf"^{re.escape(name.lower())}==", pins, re.MULTILINE), f"{name} is not pinned"


def test_every_extra_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    for requirement in (r for extra in project["optional-dependencies"].values() for r in extra):
        name = re.split(r"[^A-Za-z0-9-]", requirement)[0].lower()
        assert re.search(rf"^{re.escape(name)}==", pins, re.MULTILINE), f"{name} is not pinned"


def test_every_command_of_the_documents_is_one_that_a_test_runs() -> None:
    run_by = {
        "make serve": "tests/test_readme.py",
        "make test": ".ci/run",
        "curl -s http://127.0.0.1:8000/": "tests/test_readme.py",
        "curl -s 'http://127.0.0.1:8000/": "tests/test_readme.py",
        "curl -s -X POST http://127.0.0.1:8000/models/": "tests/test_readme.py",
        "curl -sN http://127.0.0.1:8000/": "tests/test_readme.py",
        ".venv/bin/python -m training ": "tests/test_readme.py",
    }
    for command in (command for example in examples() for command in example.commands):
        assert any(command.startswith(known) for known in run_by), f"no test runs: {command}"


def test_every_endpoint_has_an_example_in_the_documents() -> None:
    from app.main import create_app
    from tests.app.api.fake_engine import FakeEngine

    for path in create_app(Settings(), FakeEngine()).openapi()["paths"]:
        shown = re.compile(":8000" + re.sub(r"\\{\w+\\}", "[^/ ]+", re.escape(path)) + r"(?=[? ']|$)")
        asked = any(shown.search(c.split(" -H")[0]) for e in examples() for c in e.commands)
        # what is made by one request and named in the next has its row or sentence
        assert asked or f"{path}`" in PROTOCOLS, path


def test_files_and_functions_stay_small() -> None:
    for package in ("app", "models", "training", "benchmarks"):
        for path in (ROOT / package).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            assert source.count("\n") <= 320, f"{path} has a second noun in it"
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    length = (node.end_lineno or node.lineno) - node.lineno + 1
                    assert length <= 60, f"{path}: {node.name} has {length} lines"


def test_no_file_is_named_for_nothing() -> None:
    for path in ROOT.glob("[!.]*/**/*.py"):
        assert path.stem not in {"utils", "util", "common", "helpers", "misc"}, path
        assert (path.parent / "__init__.py").exists() or path.parent == Path(), f"{path.parent} is not a package"
