"""How much memory a workload takes, said before anything is allocated."""

from dataclasses import dataclass

from tracekit.errors import UnsupportedError
from tracekit.formats import Workload
from tracekit.models import ITEM_BYTES, ModelConfig, kv_bytes_per_token, weight_bytes

HEADROOM = 0.9
"""Share of the free memory that a workload may plan with: allocators and libraries need the rest."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes by use.

    Attributes:
        weights: All weights.
        kv_cache: Caches of the largest phase.
        activations: The largest step's temporaries, roughly.
        buffers: Those of the ceiling measurement, which stand beside nothing else.
    """

    weights: int
    kv_cache: int
    activations: int
    buffers: int = 0

    @property
    def total(self) -> int:
        """The most that is needed at one time."""
        return max(self.weights + self.kv_cache + self.activations, self.buffers)


def estimate(config: ModelConfig, workload: Workload, buffers: int = 0) -> Estimate:
    """The memory that a workload needs.

    Args:
        config: The model as it runs: truncated and sharded.
        workload: What is to run.
        buffers: Bytes of the ceiling measurement.
    """
    tokens = {
        "prefill": (workload.batch * workload.prompt_len, workload.batch * workload.prompt_len),
        "decode": (workload.batch, workload.batch * (workload.kv_len + workload.decode_steps)),
        "mixed": (
            workload.batch + workload.prompt_len,
            workload.batch * (workload.kv_len + 1) + workload.prompt_len,
        ),
    }
    scheduled = max(tokens[phase][0] for phase in workload.phases)
    cached = sum(tokens[phase][1] for phase in workload.phases)
    return Estimate(
        weights=weight_bytes(config, workload.dtype),
        # A cache that grows is copied when it does: for a moment both are there.
        kv_cache=cached
        * kv_bytes_per_token(config, workload.kv_dtype)
        * (1 + (workload.backend == "transformers")),
        activations=_activations(config, workload, scheduled),
        buffers=buffers,
    )


def _activations(config: ModelConfig, workload: Workload, scheduled: int) -> int:
    item = ITEM_BYTES[workload.dtype]
    heads = config.heads * config.head_dim
    visits = config.experts_per_token + config.shared_experts
    widest = max(3 * config.intermediate, 3 * config.expert_intermediate * visits, 4 * heads)
    step = scheduled * (4 * config.hidden + widest) * item + 2 * workload.batch * config.vocab * item
    if workload.attention != "eager" and not config.sinks:
        return step
    # Scores, their mask and their softmax exist at once.
    queries, keys = workload.prompt_len, max(workload.prompt_len, workload.kv_len)
    pairs = max(queries * queries if workload.phases != ("decode",) else 0, keys)
    return step + 3 * workload.batch * config.heads * pairs * item


def check(config: ModelConfig, workload: Workload, needed: Estimate, free: int) -> None:
    """Refuse what does not fit, and say what would.

    Args:
        config: The model as it would run.
        workload: What would run.
        needed: Its estimate.
        free: Bytes that can be allocated.

    Raises:
        UnsupportedError: The estimate is larger than the free memory allows.
    """
    room = int(free * HEADROOM)
    if needed.total <= room:
        return
    parts = f"weights {_gb(needed.weights)}, KV cache {_gb(needed.kv_cache)}, activations {_gb(needed.activations)}"
    reason = f"{config.name} in {workload.dtype} needs {_gb(needed.total)} ({parts}); {_gb(room)} can be used"
    raise UnsupportedError(reason, hint=_what_fits(config, workload, room))


def _what_fits(config: ModelConfig, workload: Workload, room: int) -> str:
    fits = [
        layers
        for layers in range(1, config.layers)
        if estimate(config.truncated(layers), workload).total <= room
    ]
    if fits:
        return f"--layers {max(fits)} would fit"
    if weight_bytes(config.truncated(1), workload.dtype) <= room:
        return "even one layer does not fit: lower --batch, --prompt-len or --kv-len"
    return "even the weights of one layer do not fit: choose a smaller --model or --dtype, or a larger --tp"


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
