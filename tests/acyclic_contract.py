"""An import contract of our own: no module imports itself through others, imports under TYPE_CHECKING included.

import-linter's `acyclic_siblings` looks at packages; this one at single modules. pyproject.toml names it.
"""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class AcyclicModules(Contract):
    """packages: the root packages to check."""

    type_name = "acyclic_modules"

    packages = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        roots: set[str] = self.packages  # type: ignore[assignment]
        modules = {module for module in graph.modules if module.split(".")[0] in roots}
        imported = {module: graph.find_modules_directly_imported_by(module) & modules for module in modules}
        cycles = import_cycles(imported)
        return ContractCheck(kept=not cycles, metadata={"cycles": cycles})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for cycle in check.metadata["cycles"]:
            output.print_error("These modules import each other: " + ", ".join(cycle))


def import_cycles(imported: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of two or more modules, sorted (Tarjan 1972, without recursion).

    imported: module -> the modules that it imports directly.
    """
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[list[str]] = []
    for root in sorted(imported):
        if root in index:
            continue
        index[root] = lowest[root] = len(index)
        stack.append(root)
        work = [(root, iter(sorted(imported[root])))]
        while work:
            module, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = lowest[successor] = len(index)
                    stack.append(successor)
                    work.append((successor, iter(sorted(imported[successor]))))
                    break
                if successor in stack:
                    lowest[module] = min(lowest[module], index[successor])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[module])
                if lowest[module] == index[module]:
                    start = stack.index(module)
                    if len(component := stack[start:]) > 1:
                        cycles.append(sorted(component))
                    del stack[start:]
    return cycles
