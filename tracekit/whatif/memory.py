"""Whether a step's model and cache fit the device, and when they no longer do."""

from dataclasses import dataclass

from tracekit.models import kv_elements_per_token, parameters
from tracekit.whatif.scenario import STORED, Scenario

USABLE = 0.9
"""Share of the memory that an engine takes: the default of vLLM's gpu_memory_utilization."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one rank.

    Attributes:
        weight_bytes: All weights, whether a step reads them or not.
        kv_bytes: The cache of all requests.
        capacity_bytes: Memory of the device; None where it is not known.
        most_requests: Requests of this length that fit; None where the capacity is not known, 0 where the weights
            do not fit.
        most_tokens: Cached tokens that fit.
    """

    weight_bytes: float
    kv_bytes: float
    capacity_bytes: float | None
    most_requests: int | None
    most_tokens: int | None


def memory(scenario: Scenario, capacity: float | None) -> Memory:
    """The memory of one rank, by counts of parameters and cached elements.

    Args:
        scenario: What is asked.
        capacity: Memory of the device [byte].
    """
    config = scenario.config.sharded(scenario.ranks)
    count = parameters(config)
    wide = count.embedding + count.head
    weights = wide * STORED[scenario.dtype] + (count.total - wide) * STORED[scenario.weight_dtype]
    a_token = kv_elements_per_token(config) * STORED[scenario.kv_dtype]
    held = scenario.keys
    kv = a_token * held * scenario.batch
    if capacity is None:
        return Memory(weights, kv, None, None, None)
    left = max(0.0, capacity * USABLE - weights)
    return Memory(weights, kv, capacity, int(left // (a_token * held)), int(left // a_token))
