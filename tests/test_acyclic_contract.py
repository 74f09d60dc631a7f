from __future__ import annotations

from tests.acyclic_contract import import_cycles


def test_a_chain_of_imports_is_no_cycle() -> None:
    assert import_cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_cycles_of_two_and_of_three_modules_are_reported() -> None:
    imported = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}, "f": {"a"}}
    assert import_cycles(imported) == [["c", "d", "e"], ["a", "b"]]
