"""Least time of a step: the work of each piece of a model against the ceilings of a device."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tracekit.errors import UnsupportedError
from tracekit.tables.ceilings import Ceilings
from tracekit.whatif.scenario import STORED, Scenario
from tracekit.work.pieces import Builder, Fusion, Piece

GROUPS = ("products", "experts", "attention", "cache", "pointwise")
"""What pieces are predicted together."""
# The narrow type that matrix units compute in, where the weights are stored in it; int4 and fp4 weights alone are
# widened to the activations' type first.
_MATH = {"fp8": "fp8", "int8": "int8"}


@dataclass(frozen=True, slots=True)
class Load:
    """Work of one piece, in counts and bytes.

    Attributes:
        role: What it is.
        group: Of `GROUPS`.
        flops: Useful operations [FLOP].
        weight_bytes: Weights read [byte].
        kv_bytes: Cache read and written [byte].
        moved: Activations read and written [byte].
        peak: Word of the compute roof.
    """

    role: str
    group: str
    flops: float
    weight_bytes: float
    kv_bytes: float
    moved: float
    peak: str

    def compute_s(self, ceilings: Ceilings, *, achievable: bool = False) -> float:
        """Time at the compute roof [s]."""
        if not self.flops:
            return 0.0
        return self.flops / rate(ceilings, self.peak, achievable=achievable)

    def dram_s(self, ceilings: Ceilings, *, activations: bool = True, achievable: bool = False) -> float:
        """Time at the DRAM roof [s]."""
        moved = self.weight_bytes + self.kv_bytes + (self.moved if activations else 0.0)
        return moved / rate(ceilings, "dram", achievable=achievable)

    def least_s(self, ceilings: Ceilings, *, activations: bool = True, achievable: bool = False) -> float:
        """The larger of both [s]."""
        return max(
            self.compute_s(ceilings, achievable=achievable),
            self.dram_s(ceilings, activations=activations, achievable=achievable),
        )


def rate(ceilings: Ceilings, word: str, *, achievable: bool = False) -> float:
    """A roof in SI base units.

    Raises:
        UnsupportedError: The device has none, or it is not known.
    """
    roof = ceilings.dram if word == "dram" else ceilings.link if word == "link" else ceilings.peak(word)
    value = roof.achievable if achievable else roof.used
    if value is None:
        option = "--dram RATE" if word == "dram" else f"--peak {word}=RATE"
        raise UnsupportedError(
            f"{ceilings.device or 'the device'} has no known {word} rate",
            hint=f"give {option}, or another --device",
        )
    return value


def loads(scenario: Scenario, ceilings: Ceilings) -> list[Load]:
    """The work of one rank in one step, piece by piece, in order of launch within each group."""
    config = scenario.config.sharded(scenario.ranks)
    builder = Builder(config, scenario.sizes(), STORED[scenario.dtype])
    math = _MATH.get(scenario.weight_dtype, scenario.dtype)
    math = math if ceilings.peak(math).used is not None else scenario.dtype
    return [_load(group, piece, scenario, math) for group, piece in _pieces(builder)]


def _pieces(builder: Builder) -> Iterator[tuple[str, Piece]]:
    fusion = Fusion()
    yield from (("products", piece) for piece in builder.products(fusion))
    if builder.config.experts:
        yield from (("experts", piece) for piece in builder.experts(fusion))
        yield from (("pointwise", piece) for piece in builder.finalise())
    yield from (("attention", piece) for piece in builder.attention())
    yield from (("cache", piece) for piece in builder.cache_writes())
    parts = itertools.chain(builder.norms(fusion), builder.rotations(), builder.activations())
    yield from (("pointwise", piece) for piece in parts)


def _load(group: str, piece: Piece, scenario: Scenario, math: str) -> Load:
    narrow = group in {"products", "experts"} and piece.role not in {"lm_head", "router"}
    stored = STORED[scenario.weight_dtype if narrow else scenario.dtype]
    peak = "vector" if not piece.matrix else (math if narrow else scenario.dtype)
    return Load(
        piece.role,
        group,
        float(piece.flops[0]),
        float(piece.weights[0]) * stored,
        float(piece.kv[0]) * STORED[scenario.kv_dtype],
        float(piece.moved[0]),
        peak,
    )


def is_floor(load: Load) -> bool:
    """Whether a piece belongs to the floor: weights, cache and matrix work, which no fusion can remove."""
    return load.group in {"products", "experts", "attention", "cache"}


def floor_s(parts: list[Load], ceilings: Ceilings) -> float:
    """Speed of light of a step: each piece at its nearer roof, activations staying on the chip [s]."""
    return sum(part.least_s(ceilings, activations=False) for part in parts if is_floor(part))


def all_reduce_s(scenario: Scenario, ceilings: Ceilings, *, achievable: bool = False) -> tuple[float, int]:
    """Two all-reduces a layer of a tensor-parallel group: time on the link [s], and how many.

    A ring moves 2(n-1)/n of the message over each link. Source: nccl-tests, doc/PERFORMANCE.md.
    """
    ranks = scenario.ranks
    if ranks == 1:
        return 0.0, 0
    count = 2 * scenario.config.layers
    message = scenario.batch * scenario.queries * scenario.config.hidden * STORED[scenario.dtype]
    return count * message * 2 * (ranks - 1) / ranks / rate(ceilings, "link", achievable=achievable), count


def ridge_batch(parts: list[Load], scenario: Scenario, ceilings: Ceilings) -> float | None:
    """Query tokens a step from which the layers' products are bound by compute rather than DRAM.

    Over all products at once: M where 2·M·ΣNK/P = (ΣNK·bytes + M·Σ(N+K)·item)/B. None where activations alone keep
    them left of the ridge.
    """
    tokens = scenario.batch * scenario.queries
    products = [part for part in parts if part.group == "products" and part.role != "lm_head"]
    if not products:
        return None
    compute = sum(part.compute_s(ceilings) for part in products) / tokens
    moved = sum(part.moved for part in products) / tokens / rate(ceilings, "dram")
    weights = sum(part.weight_bytes for part in products) / rate(ceilings, "dram")
    return weights / (compute - moved) if compute > moved else None
