"""Which preset a capture's recorded sizes name: for finding the model that the user did not say.

A preset is named only where its head, its query projection and its MLP or router are all among the recorded
weights, where no recorded weight is foreign to it, and where no other preset agrees as well.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from tracekit.models import ModelConfig
from tracekit.work.registered import Heads, evaluate
from tracekit.work.signature import OpCall, parse_call

# Position of the weight, and of the router's logits.
_PRODUCTS = {"aten::mm": 1, "aten::linear": 1, "aten::addmm": 2, "aten::embedding": 0}
_ROUTED = {"vllm::moe_forward": 1, "vllm::moe_forward_shared": 1}


@dataclass(frozen=True, slots=True)
class Traits:
    """What recorded sizes tell of a model.

    Attributes:
        matrices: Sizes of weights, each as (larger, smaller).
        heads: (Query heads, KV heads, head size) of attention ops.
        experts: Last sizes of router logits.
    """

    matrices: frozenset[tuple[int, int]]
    heads: frozenset[tuple[int, int, int]]
    experts: frozenset[int]

    def __or__(self, other: "Traits") -> "Traits":
        """What two captures of one model tell together."""
        return Traits(self.matrices | other.matrices, self.heads | other.heads, self.experts | other.experts)


def traits(signatures: pd.DataFrame) -> Traits:
    """Collect them from SIGNATURES."""
    columns = [
        signatures[name].astype(object).to_list() for name in ("op", "dims", "types", "strides", "concrete")
    ]
    calls = [parse_call(str(op), *texts) for op, *texts in zip(*columns, strict=True)]
    known = [call for call in calls if call is not None]
    matrices = {size for call in known for size in _matrix(call)}
    heads = {(found.heads, found.kv_heads, found.head_dim) for call in known for found in _heads(call)}
    experts = {count for call in known for count in _routed(call)}
    return Traits(frozenset(matrices), frozenset(heads), frozenset(experts))


def _matrix(call: OpCall) -> list[tuple[int, int]]:
    at = _PRODUCTS.get(call.name)
    tensor = None if at is None else call.tensor(at)
    if tensor is None or len(tensor.shape) != 2:  # noqa: PLR2004 - a matrix
        return []
    return [_sorted(*tensor.shape)]


def _heads(call: OpCall) -> list[Heads]:
    work = evaluate(call)
    return [] if work is None or work.heads is None else [work.heads]


def _routed(call: OpCall) -> tuple[int, ...]:
    at = _ROUTED.get(call.name)
    logits = None if at is None else call.tensor(at)
    return () if logits is None else logits.shape[-1:]


def identify(found: Traits, presets: Iterable[ModelConfig]) -> ModelConfig | None:
    """The one preset that agrees with all traits; None where none or several do."""
    agreeing = [config for config in presets if _agrees(found, config)]
    return agreeing[0] if len(agreeing) == 1 else None


def _agrees(found: Traits, config: ModelConfig) -> bool:
    if config.latent is not None:
        return False
    hidden, queries, keys = config.hidden, config.heads * config.head_dim, config.kv_heads * config.head_dim
    head = {_sorted(config.vocab, hidden)}
    projections = {_sorted(queries, hidden), _sorted(queries + 2 * keys, hidden)}
    widths = (config.intermediate, 2 * config.intermediate, config.experts)
    mlp = {_sorted(width, hidden) for width in widths if width}
    return (
        all(found.matrices & part for part in (head, projections, mlp))
        and found.matrices <= head | projections | mlp | {_sorted(keys, hidden)}
        and (not found.heads or (config.heads, config.kv_heads, config.head_dim) in found.heads)
        and (not found.experts or config.experts in found.experts)
    )


def _sorted(first: int, second: int) -> tuple[int, int]:
    return max(first, second), min(first, second)
