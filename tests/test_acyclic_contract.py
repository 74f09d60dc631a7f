from __future__ import annotations

import tomllib
from pathlib import Path

from tests.acyclic_contract import import_cycles


def test_a_chain_of_imports_is_no_cycle() -> None:
    assert import_cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_cycles_of_two_and_of_three_modules_are_reported() -> None:
    imported = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}, "f": {"a"}}
    assert import_cycles(imported) == [["c", "d", "e"], ["a", "b"]]


def test_every_package_of_training_has_a_layer_of_its_own() -> None:
    """`:` would let the packages of a layer import each other in both directions."""
    root = Path(__file__).parents[1]
    contracts = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract.get("containers") == ["training"]]
    packages = {path.parent.name for path in root.glob("training/*/__init__.py")}
    assert packages <= set(layers), "give each package of training a layer of its own in pyproject.toml"
    assert not [layer for layer in layers if ":" in layer]
