"""Tiles of matrix kernels, from their names."""

from collections.abc import Iterable
from typing import NamedTuple

from tracekit.taxonomy.rules import Rule


class Tile(NamedTuple):
    """What a name says of a kernel's tile.

    Attributes:
        text: "MxNxK", or "MxN" where the name has no third side; the sides as the library orders them.
        tokens: The side that meets the tokens of a linear layer; NaN where that is not known.
    """

    text: str
    tokens: float


def read_tile(name: str, candidates: Iterable[Rule]) -> Tile | None:
    """The tile that the first matching rule reads; None where none matches."""
    for rule in candidates:
        match = rule.pattern.search(name)
        if match is not None:
            sides = match.groupdict()
            text = "x".join(str(int(sides[side])) for side in ("m", "n", "k") if sides.get(side))
            tokens = rule.row.text("tokens", "")
            return Tile(text, float(sides[tokens]) if tokens else float("nan"))
    return None
