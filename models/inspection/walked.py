"""One step of a forward pass, told, and the list that they are written into."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

Values = tuple[float, ...] | tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Walked:
    """part: "embedding", "layer input", "self-attention", "cross-attention", "feed-forward" or "output". formula: plain
    text. shape: of the whole. values: a vector or the rows of a matrix, each row and their number cut where `shape`
    says more; -inf stands for scores that are masked. indices: which entries of the vector these are; None: the first.
    """

    part: str
    name: str
    formula: str
    shape: tuple[int, ...]
    values: Values
    indices: tuple[int, ...] | None = None


@dataclass(slots=True)
class Walk:
    """most: how many values of a vector are told; most_keys: of how many places."""

    most: int
    most_keys: int
    steps: list[Walked] = field(default_factory=list)
    part: str = "embedding"

    def vector(self, name: str, formula: str, x: Tensor) -> None:
        """x [n]: of one place."""
        self._tell(name, formula, x, tuple(x[: self.most].double().tolist()))

    def keys(self, name: str, formula: str, x: Tensor) -> None:
        """x [K]: a number, or [K, n]: a vector, of each key."""
        shown = x[: self.most_keys].double()
        if x.dim() == 1:
            self._tell(name, formula, x, tuple(shown.tolist()))
        else:
            self._tell(name, formula, x, tuple(tuple(row) for row in shown[:, : self.most].tolist()))

    def largest(self, name: str, formula: str, x: Tensor) -> None:
        """x [V]: the largest ones."""
        values, places = x.double().topk(min(self.most, len(x)))
        step = Walked(self.part, name, formula, (len(x),), tuple(values.tolist()), tuple(places.tolist()))
        self.steps.append(step)

    def _tell(self, name: str, formula: str, x: Tensor, values: Values) -> None:
        self.steps.append(Walked(self.part, name, formula, tuple(x.shape), values))
