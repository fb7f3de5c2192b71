"""A model by its dimensions, and the parts of it that a run may take."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tracekit.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention (MLA): keys and values are compressed into one latent vector a token.

    Attributes:
        query_rank: Width of the query's latent; 0 where queries are not compressed.
        kv_rank: Width of the cached latent.
        nope_dim: Part of a head that carries no position.
        rope_dim: Part of a head that carries the position; its key is cached too, one for all heads.
        value_dim: Elements of one value head.
    """

    query_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Dimensions of a decoder-only transformer with gated MLPs and RMSNorm.

    Attributes:
        name: Preset name, or that of the configuration.
        layers: Transformer blocks.
        hidden: Width of the residual stream.
        intermediate: Width of a dense MLP; 0 where every layer is a mixture of experts.
        heads: Query heads.
        kv_heads: Key and value heads.
        head_dim: Elements of one head.
        vocab: Rows of the embedding.
        tied: Whether the output head is the embedding.
        experts: Routed experts of a layer; 0 for a dense model.
        experts_per_token: Routed experts that a token visits.
        expert_intermediate: Width of one expert.
        shared_experts: Experts that every token visits, each as wide as a routed one.
        first_dense: Leading layers with a dense MLP although the model has experts.
        sliding_window: Keys that a query of a windowed layer sees at most, itself included; 0 for none.
        windowed: For each layer, whether it is windowed.
        latent: MLA dimensions; None for grouped-query attention.
        qkv_bias: Biases on the query, key and value projections.
        output_bias: Bias on the attention's output projection.
        mlp_bias: Biases inside the (expert) MLPs.
        router_bias: Bias on the router.
        qk_norm: RMSNorm over each query and key head.
        sinks: One learned attention sink a head.
        rope_theta: Base of the rotary embedding.
        source: Where the dimensions come from.
        params_total: Total parameters that the source or a count on the meta device gives; checked by a test.
    """

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_intermediate: int = 0
    shared_experts: int = 0
    first_dense: int = 0
    sliding_window: int = 0
    windowed: tuple[bool, ...] = ()
    latent: Latent | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    router_bias: bool = False
    qk_norm: bool = False
    sinks: bool = False
    rope_theta: float = 10000.0
    source: str = ""
    params_total: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The dimensions as plain JSON values."""
        return {**asdict(self), "windowed": list(self.windowed)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "ModelConfig":
        """The model whose dimensions `to_json` gave, as `run.json` carries them.

        Raises:
            TypeError: A dimension is missing, or one is not known.
        """
        latent = values.get("latent")
        rest = {**values, "windowed": tuple(values.get("windowed", ()))}
        return cls(**{**rest, "latent": None if latent is None else Latent(**latent)})

    def is_moe(self, layer: int) -> bool:
        """Whether a layer's MLP is a mixture of experts."""
        return self.experts > 0 and layer >= self.first_dense

    def window(self, layer: int) -> int | None:
        """Keys that a query of a layer sees at most; None where it sees all."""
        return self.sliding_window if self.windowed and self.windowed[layer] else None

    def truncated(self, layers: int) -> "ModelConfig":
        """The same model with its first `layers` layers.

        Raises:
            UnsupportedError: The model has fewer.
        """
        if not 1 <= layers <= self.layers:
            hint = f"give 1 to {self.layers} layers"
            raise UnsupportedError(f"{self.name} has {self.layers} layers, not {layers}", hint=hint)
        return replace(self, layers=layers, windowed=self.windowed[:layers], params_total=None)

    def sharded(self, ranks: int) -> "ModelConfig":
        """What one rank of a tensor-parallel group holds: its heads, its part of each MLP, its vocabulary rows.

        Key and value heads are repeated where there are fewer than ranks, as engines do.

        Raises:
            UnsupportedError: Heads, MLP or vocabulary do not divide by the number of ranks.
        """
        if ranks == 1:
            return self
        parts = (self.heads, self.intermediate, self.expert_intermediate, self.vocab)
        if (
            ranks < 1
            or any(part % ranks for part in parts)
            or (self.kv_heads % ranks and ranks % self.kv_heads)
        ):
            hint = "choose a power of two that divides heads, MLP and vocabulary"
            raise UnsupportedError(
                f"{self.name} does not divide into {ranks} tensor-parallel ranks", hint=hint
            )
        return replace(
            self,
            heads=self.heads // ranks,
            kv_heads=max(1, self.kv_heads // ranks),
            intermediate=self.intermediate // ranks,
            expert_intermediate=self.expert_intermediate // ranks,
            vocab=self.vocab // ranks,
            params_total=None,
        )


_PATTERNS: dict[str, Callable[[int], bool]] = {
    "none": lambda _: False,
    "all": lambda _: True,
    "even": lambda layer: layer % 2 == 0,
    "odd": lambda layer: layer % 2 == 1,
}


def windowed_layers(pattern: str, layers: int) -> tuple[bool, ...]:
    """Which layers are windowed; layers count from 0.

    Raises:
        ValueError: The pattern is not none, all, even or odd.
    """
    if pattern not in _PATTERNS:
        raise ValueError(f"windowed_layers {pattern!r} is none of {', '.join(_PATTERNS)}")
    return () if pattern == "none" else tuple(map(_PATTERNS[pattern], range(layers)))
