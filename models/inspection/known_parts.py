"""Which parts of a Transformer are exactly as `models.networks` was written. A formula can be claimed for these alone:
an edited part computes what only its code says."""

from __future__ import annotations

from torch import nn

from models.exactness import (
    FORWARDS,
    FUNCTIONS,
    HOOKS,
    as_written,
    difference,
    differences,
    differences_everywhere,
    is_known,
    module_difference,
)
from models.networks.transformer import FeedForward, Transformer


class KnownParts:
    """A snapshot of the network, taken while no hook of an inspection is on it. edits: clauses that name each part that
    differs, such as "FeedForward.forward was edited"; () for an unmodified network."""

    def __init__(self, network: Transformer) -> None:
        plain = as_written(network, Transformer)
        self._modules = dict(network.named_modules(remove_duplicate=False))
        self._plain = dict(plain.named_modules(remove_duplicate=False))
        self._patched = any(differences_everywhere())
        found = [*differences(network, plain)]
        for name, module in self._modules.items():
            if isinstance(module, FeedForward) and not self._activates(module, network.config.activation):
                found.append(f"{name} has another activation")
        # A constructor differs wherever a helper of it was edited; the modules that it made say more.
        self.edits = tuple(dict.fromkeys(edit for edit in found if ".__init__ " not in edit)) or tuple(found)

    def part(self, name: str) -> bool:
        """Whether a module, all modules inside and their code are as written."""
        module, plain = self._modules.get(name), self._plain.get(name)
        return module is not None and plain is not None and difference(module, plain) is None

    def code(self, name: str, *methods: str) -> bool:
        """Whether these methods of a module and the module itself, without the modules inside, are as written.
        name: "" for the network."""
        module, plain = self._modules.get(name), self._plain.get(name)
        if module is None or plain is None or self._patched or type(module).__call__ is not nn.Module.__call__:
            return False
        return module_difference(module, plain) is None and all(is_known(module, method) for method in methods)

    def activation(self, name: str, kind: str) -> bool:
        """Whether the feed-forward layer of this name has the activation of the config."""
        module = self._modules.get(name)
        return isinstance(module, FeedForward) and self._activates(module, kind)

    def goes_by_its_class(self, name: str) -> bool:
        """Whether the name of its class says what a module computes: of known classes, if the module is as written; of
        others, such as RMSNorm, if neither a hook nor an own forward stands before the class."""
        module = self._modules[name]
        if type(module) in FORWARDS:
            return self.part(name)
        own = vars(module)
        return not self._patched and "forward" not in own and not any(own[hooks] for hooks in HOOKS)

    @staticmethod
    def _activates(module: FeedForward, kind: str) -> bool:
        return module.activation is FUNCTIONS.get(kind)
