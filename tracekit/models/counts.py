"""What the dimensions of a model imply: parameters, weight bytes, KV-cache bytes. Exact, by layer."""

from dataclasses import dataclass

from tracekit.models.config import Latent, ModelConfig

ITEM_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
"""Bytes of one element, by dtype word."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameter counts.

    Attributes:
        total: All of them.
        active: Those read for one token: the routed experts that it visits and the output head; of the
            input embedding only where it is the output head too (one row of it otherwise, not counted).
        embedding: The input embedding.
        head: The output head; 0 where it is tied.
        expert: One routed expert of one layer.
    """

    total: int
    active: int
    embedding: int
    head: int
    expert: int


def parameters(config: ModelConfig) -> Parameters:
    """Count the parameters of a model: exact, by layer."""
    expert = _mlp(config, config.expert_intermediate) if config.experts else 0
    embedding = config.vocab * config.hidden
    fixed = sum(_fixed(config, layer) for layer in range(config.layers)) + config.hidden
    moe_layers = sum(config.is_moe(layer) for layer in range(config.layers))
    head = 0 if config.tied else embedding
    return Parameters(
        total=fixed + moe_layers * config.experts * expert + embedding + head,
        active=fixed + moe_layers * config.experts_per_token * expert + embedding,
        embedding=embedding,
        head=head,
        expert=expert,
    )


def attention_parameters(config: ModelConfig) -> int:
    """Parameters of one attention block, without the norm before it."""
    hidden, heads = config.hidden, config.heads
    if config.latent is not None:
        return _latent_parameters(config, config.latent)
    queries, keys = heads * config.head_dim, config.kv_heads * config.head_dim
    count = hidden * (queries + 2 * keys) + queries * hidden
    count += (queries + 2 * keys) * config.qkv_bias + hidden * config.output_bias
    return count + 2 * config.head_dim * config.qk_norm + heads * config.sinks


def _latent_parameters(config: ModelConfig, latent: Latent) -> int:
    hidden, heads = config.hidden, config.heads
    key = latent.nope_dim + latent.rope_dim
    if latent.query_rank:
        query = hidden * latent.query_rank + latent.query_rank + latent.query_rank * heads * key
    else:
        query = hidden * heads * key
    compress = hidden * (latent.kv_rank + latent.rope_dim) + latent.kv_rank
    expand = latent.kv_rank * heads * (latent.nope_dim + latent.value_dim)
    return query + compress + expand + heads * latent.value_dim * hidden


def _mlp(config: ModelConfig, width: int) -> int:
    return 3 * config.hidden * width + (2 * width + config.hidden) * config.mlp_bias


def _fixed(config: ModelConfig, layer: int) -> int:
    """Parameters of a layer without its routed experts."""
    count = attention_parameters(config) + 2 * config.hidden
    if not config.is_moe(layer):
        return count + _mlp(config, config.intermediate)
    router = config.hidden * config.experts + config.experts * config.router_bias
    return (
        count
        + router
        + _mlp(config, config.shared_experts * config.expert_intermediate) * bool(config.shared_experts)
    )


def kv_elements_per_token(config: ModelConfig) -> int:
    """Cached elements a token over all layers: 2·layers·kv_heads·head_dim, or the latent's width for MLA."""
    if config.latent is not None:
        return config.layers * (config.latent.kv_rank + config.latent.rope_dim)
    return 2 * config.layers * config.kv_heads * config.head_dim


def kv_bytes_per_token(config: ModelConfig, dtype: str) -> int:
    """Bytes of the KV cache a token, in a dtype word [byte]."""
    return kv_elements_per_token(config) * ITEM_BYTES[dtype]


def weight_bytes(config: ModelConfig, dtype: str) -> int:
    """Bytes of all weights in a dtype word [byte]."""
    return parameters(config).total * ITEM_BYTES[dtype]


def expected_active_experts(config: ModelConfig, tokens: int) -> float:
    """Distinct experts of a layer that `tokens` tokens visit under uniform routing: E(1 - (1 - k/E)^T)."""
    if not config.experts:
        return 0.0
    return config.experts * (1.0 - (1.0 - config.experts_per_token / config.experts) ** tokens)
