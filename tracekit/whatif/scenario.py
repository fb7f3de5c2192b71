"""What is asked: a model, a step, and how its numbers are stored."""

from dataclasses import dataclass

import numpy as np

from tracekit.errors import UsageError
from tracekit.models import ModelConfig
from tracekit.tables import Phase
from tracekit.work.pieces import StepSizes

# Bytes of one stored element: 4 bits with a 2-byte scale a group of 128 for int4, a 1-byte scale a block of 16 for fp4.
STORED = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5 + 2 / 128,
    "fp4": 0.5 + 1 / 16,
}
PHASES = (str(Phase.PREFILL), str(Phase.DECODE))


@dataclass(frozen=True, slots=True)
class Scenario:
    """One engine step of a model.

    Attributes:
        config: The whole model, before it is shared among ranks.
        phase: `prefill` or `decode`.
        batch: Requests of the step.
        prompt_len: Query tokens a request in prefill; with `chunk` the whole prompt.
        kv_len: Cached tokens a request that the queries see before their own.
        dtype: Dtype word of activations and of the math.
        weight_dtype: Dtype word of the weights in layers; the output head keeps `dtype`.
        kv_dtype: Dtype word of the cache.
        ranks: Tensor-parallel ranks that share the model.
        chunk: Query tokens a request of one chunk of a prefill; None for the whole prompt at once.
        draft: Tokens guessed a step in speculative decoding; 0 for none.
        accept: Probability that one guessed token is accepted.
        cuda_graphs: Whether steps replay graphs, so that the host's launches cost no device time.
    """

    config: ModelConfig
    phase: str = "decode"
    batch: int = 1
    prompt_len: int = 512
    kv_len: int = 1000
    dtype: str = "bf16"
    weight_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    ranks: int = 1
    chunk: int | None = None
    draft: int = 0
    accept: float = 0.0
    cuda_graphs: bool = False

    def checked(self) -> "Scenario":
        """The scenario itself, if it can be asked.

        Raises:
            UsageError: A word or number is outside its range.
        """
        if self.phase not in PHASES:
            raise UsageError(f"--phase {self.phase!r}: not a phase of whatif", hint="prefill or decode")
        for name in ("dtype", "weight_dtype", "kv_dtype"):
            if getattr(self, name) not in STORED:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(
                    f"{option} {getattr(self, name)!r}: not known", hint=f"one of {', '.join(STORED)}"
                )
        if min(self.batch, self.prompt_len, self.ranks) < 1 or self.kv_len < 0 or self.chunk == 0:
            raise UsageError("batch, prompt length, chunk and ranks are at least 1, the KV length at least 0")
        if self.draft < 0 or not 0 <= self.accept <= 1:
            raise UsageError(
                "--speculative is K,ACCEPT", hint="for example 4,0.7: four tokens, each accepted with 0.7"
            )
        return self

    @property
    def queries(self) -> int:
        """Query tokens a request of one step."""
        return 1 + self.draft if self.phase == "decode" else self.chunk or self.prompt_len

    @property
    def keys(self) -> int:
        """Key tokens a request when the step ends: cached ones and its own."""
        return self.kv_len + self.queries

    @property
    def tokens_won(self) -> float:
        """Tokens that a step brings forward: of a decode those accepted and one more, of a prefill its queries.

        Speculative decoding: (1 - a^(k+1)) / (1 - a). Source: Leviathan et al., "Fast Inference from Transformers
        via Speculative Decoding", 2023, equation 1.
        """
        if self.phase != "decode":
            return float(self.batch * self.queries)
        if self.accept == 1:
            return float(self.batch * (self.draft + 1))
        return self.batch * (1 - self.accept ** (self.draft + 1)) / (1 - self.accept)

    def sizes(self) -> StepSizes:
        """Tokens and query-key pairs of the step under a causal mask."""
        queries, cached = self.queries, self.kv_len
        pairs = self.batch * (queries * cached + queries * (queries + 1) / 2)
        # A verification needs the logits of each guessed token.
        heads = self.batch * (queries if self.phase == "decode" else 1)
        figures = (self.batch * queries, heads, self.batch * self.keys, pairs)
        return StepSizes(*(np.array([figure], dtype=np.float64) for figure in figures))
