"""Op models by op name: one pure function each, registered by decorator."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TypeAlias

from tracekit.work.signature import OpCall


class OpKind(StrEnum):
    """What an op does: decides which kernel of it is the main one, and which inner op does its work."""

    VIEW = "view"
    GEMM = "gemm"
    ATTENTION = "attention"
    LATENT = "latent"
    MOE = "moe"
    CONV = "conv"
    NORM = "norm"
    SOFTMAX = "softmax"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    GATHER = "gather"
    COPY = "copy"
    FILL = "fill"
    QUANT = "quant"
    KV_WRITE = "kv_write"
    ROPE = "rope"
    SAMPLING = "sampling"
    SSM = "ssm"
    COLLECTIVE = "collective"


@dataclass(frozen=True, slots=True)
class Heads:
    """What an attention op says of itself where the key lengths are device data: step sums complete it.

    Attributes:
        heads: Query heads.
        kv_heads: Key and value heads.
        head_dim: Elements of one query or key head.
        value_dim: Elements of one value head.
        query_item: Bytes of one query or output element.
        kv_item: Bytes of one cached key or value element; None where the cache's type is not recorded.
        cached: Elements of the cache that a token of keys and values takes in all heads; those of its heads where
            None. MLA caches one latent for keys, values and all heads.
        window: Keys that a query sees at most, itself included; None for all.
        keys: Keys of all requests that the call was given; None where they lie in a cache. Sums over a step with
            another number of keys are not of this call.
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    query_item: float
    kv_item: float | None
    cached: int | None = None
    window: int | None = None
    keys: int | None = None


@dataclass(frozen=True, slots=True)
class OpWork:
    """Useful work and minimum traffic of one call.

    Attributes:
        flops: Operations, a multiply-add counted as two; None where the recorded sizes do not say.
        dram_bytes: Every distinct tensor once; None where the recorded sizes do not say.
        dtype: Type of the math; None where it is not recorded.
        peak: Which ceiling applies: a dtype word for matrix units, `vector` for the plain FP32 units.
        weight_bytes: Weights among `dram_bytes`.
        kv_bytes: Keys and values among `dram_bytes`.
        heads: Given where step sums can complete an attention call.
        absorbed: The heads for steps of one query token a request, where MLA then works in the latent space.
        bus_bytes: Bytes that a collective puts on a rank's link, as nccl-tests count them; None where the number
            of ranks is not recorded, and for what is no collective.
        queries: Query tokens that an attention call was given, where it may serve one side of a mixed step alone; None
            where it serves the whole step or does not say.
        expected_bytes: Weights among `weight_bytes` of experts of which the expected number is known, not which were
            touched.
        elements: Elements that move, and the weights among them, where sizes alone were recorded and all are of one
            type that is not; None elsewhere.
        second_bytes: The second operand of a batch of products: inside MLA it is a weight, elsewhere it is not.
    """

    flops: float | None
    dram_bytes: float | None
    dtype: str | None
    peak: str | None
    weight_bytes: float = 0.0
    kv_bytes: float = 0.0
    heads: Heads | None = None
    absorbed: Heads | None = None
    bus_bytes: float | None = None
    queries: int | None = None
    expected_bytes: float = 0.0
    elements: tuple[float, float] | None = None
    second_bytes: float = 0.0


NOTHING = OpWork(0.0, 0.0, None, None)

OpModel: TypeAlias = Callable[[OpCall], OpWork | None]


@dataclass(frozen=True, slots=True)
class Registered:
    """A model and the kind of op that it is for."""

    kind: OpKind
    function: OpModel


_EXACT: dict[str, Registered] = {}
_PATTERNS: dict[str, Registered] = {}


def model(*names: str, kind: OpKind) -> Callable[[OpModel], OpModel]:
    """Register a model for ops by name; a name with `*` is a pattern, tried after the exact names."""

    def register(function: OpModel) -> OpModel:
        for name in names:
            (_PATTERNS if "*" in name else _EXACT)[name] = Registered(kind, function)
        find.cache_clear()
        return function

    return register


@lru_cache(maxsize=1 << 14)
def find(name: str) -> Registered | None:
    """The model of an op; None where there is none."""
    exact = _EXACT.get(name)
    if exact is not None:
        return exact
    return next((entry for pattern, entry in _PATTERNS.items() if fnmatchcase(name, pattern)), None)


def evaluate(call: OpCall) -> OpWork | None:
    """The work of a call by its model; None where there is no model or the recorded sizes do not fit it."""
    entry = find(call.name)
    return None if entry is None else entry.function(call)
