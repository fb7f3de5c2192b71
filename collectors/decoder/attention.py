"""Grouped-query attention over the KV cache."""

import torch
from torch import Tensor, nn

from collectors.decoder.fused import fused, prepare
from collectors.decoder.layers import RMSNorm, Rotary
from collectors.decoder.step import Group, StepInput
from tracekit.models import ModelConfig


class Attention(nn.Module):
    """Grouped-query attention; one matrix makes queries, keys and values."""

    def __init__(self, config: ModelConfig, layer: int, implementation: str) -> None:
        super().__init__()
        self.layer = layer
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        self.window = config.window(layer)
        width = (config.heads + 2 * config.kv_heads) * config.head_dim
        self.qkv = nn.Linear(config.hidden, width, bias=config.qkv_bias)
        self.out = nn.Linear(config.heads * config.head_dim, config.hidden, bias=config.output_bias)
        self.q_norm = RMSNorm(config.head_dim) if config.qk_norm else None
        self.k_norm = RMSNorm(config.head_dim) if config.qk_norm else None
        self.sinks = nn.Parameter(torch.empty(config.heads)) if config.sinks else None
        # The fused kernels have no place for a sink in the softmax.
        self.implementation = "eager" if config.sinks else implementation
        self.fused = fused(self.implementation)

    def prepare(self, group: Group, device: torch.device) -> None:
        """Make what a group needs before it is timed."""
        prepare(self.implementation, group, self.window, device)

    def forward(self, x: Tensor, step: StepInput, rotary: Rotary) -> Tensor:
        """Map [tokens, hidden] to [tokens, hidden], and append the new keys and values to the caches."""
        qkv = self.qkv(x)
        parts = [self._group(qkv[rows], group, rotary) for group, rows in step.slices()]
        out: Tensor = self.out(parts[0] if len(parts) == 1 else torch.cat(parts))
        return out

    def _group(self, qkv: Tensor, group: Group, rotary: Rotary) -> Tensor:
        rows = qkv.view(group.requests, group.queries, -1, self.head_dim)
        query, key, value = torch.split(rows, [self.heads, self.kv_heads, self.kv_heads], dim=2)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = rotary(query, group.past), rotary(key, group.past)
        cache = group.caches[self.layer]
        cache.append(key.transpose(1, 2), value.transpose(1, 2), group.past)
        # A single query sees the last keys of its window; more of them need a mask over all keys.
        start = max(0, group.keys - self.window) if self.window and group.queries == 1 else 0
        keys, values = cache.view(start, group.keys, query.dtype)
        query = query.transpose(1, 2)
        result = (
            self._attend_eager(query, keys, values, group)
            if self.implementation == "eager"
            else self.fused(query, keys, values, group, self.window)
        )
        return result.transpose(1, 2).reshape(group.tokens, self.heads * self.head_dim)

    def _attend_eager(self, query: Tensor, keys: Tensor, values: Tensor, group: Group) -> Tensor:
        """Products, softmax and sinks one by one; the heads of a group share a product, so that no key is copied."""
        shape = (group.requests, self.kv_heads, self.heads // self.kv_heads * group.queries, self.head_dim)
        scores = torch.matmul(query.reshape(shape), keys.transpose(2, 3)) * self.head_dim**-0.5
        scores = scores.view(group.requests, self.heads, group.queries, keys.shape[2])
        if group.queries > 1:
            scores = scores.masked_fill(~group.mask(self.window, query.device), float("-inf"))
        weights = softmax_with_sinks(scores, self.sinks)
        result = torch.matmul(weights.view(*shape[:3], keys.shape[2]), values)
        return result.view(group.requests, self.heads, group.queries, self.head_dim)


def softmax_with_sinks(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Softmax over the keys of [requests, heads, queries, keys]; a sink takes its share and gives no value."""
    if sinks is None:
        return scores.softmax(dim=-1)
    column = sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
    return torch.cat((scores, column), dim=-1).softmax(dim=-1)[..., :-1]
