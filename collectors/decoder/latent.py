"""Multi-head latent attention: prefill expands the latents, decode absorbs the expansion into its query."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from collectors.decoder.fused import fused, prepare
from collectors.decoder.layers import RMSNorm, Rotary
from collectors.decoder.step import Group, StepInput
from tracekit.models import Latent, ModelConfig


class LatentAttention(nn.Module):
    """MLA; the cache holds one latent and one positional key a token, shared by all heads."""

    def __init__(self, config: ModelConfig, latent: Latent, layer: int, implementation: str) -> None:
        super().__init__()
        # Unfused, the expanded form would be a second implementation of the same: PyTorch's choice stands in.
        self.implementation = "sdpa" if implementation == "eager" else implementation
        self.fused = fused(self.implementation)
        self.layer, self.heads, self.dims = layer, config.heads, latent
        key = latent.nope_dim + latent.rope_dim
        self.scale = key**-0.5
        query_width = latent.query_rank or config.hidden
        if latent.query_rank:
            self.query_down = nn.Linear(config.hidden, latent.query_rank, bias=False)
            self.query_norm = RMSNorm(latent.query_rank)
        self.query_up = nn.Linear(query_width, config.heads * key, bias=False)
        self.kv_down = nn.Linear(config.hidden, latent.kv_rank + latent.rope_dim, bias=False)
        self.kv_norm = RMSNorm(latent.kv_rank)
        self.kv_up = nn.Linear(
            latent.kv_rank, config.heads * (latent.nope_dim + latent.value_dim), bias=False
        )
        self.out = nn.Linear(config.heads * latent.value_dim, config.hidden, bias=False)

    def prepare(self, group: Group, device: torch.device) -> None:
        """Make what a group needs before it is timed."""
        prepare(self.implementation, group, None, device)

    def forward(self, x: Tensor, step: StepInput, rotary: Rotary) -> Tensor:
        """Map [tokens, hidden] to [tokens, hidden], and append the new latents to the caches."""
        query = self.query_up(self.query_norm(self.query_down(x)) if self.dims.query_rank else x)
        compressed, position = torch.split(self.kv_down(x), [self.dims.kv_rank, self.dims.rope_dim], dim=-1)
        compressed = self.kv_norm(compressed)
        parts = [
            self._group(query[rows], compressed[rows], position[rows], group, rotary)
            for group, rows in step.slices()
        ]
        out: Tensor = self.out(parts[0] if len(parts) == 1 else torch.cat(parts))
        return out

    def _group(
        self, query: Tensor, compressed: Tensor, position: Tensor, group: Group, rotary: Rotary
    ) -> Tensor:
        shape = (group.requests, group.queries)
        parts = [self.dims.nope_dim, self.dims.rope_dim]
        content, turned = torch.split(query.view(*shape, self.heads, -1), parts, dim=-1)
        turned = rotary(turned, group.past)
        position = rotary(position.view(*shape, 1, -1), group.past)
        entry = torch.cat((compressed.view(*shape, 1, -1), position), dim=-1)
        cache = group.caches[self.layer]
        cache.append(entry.transpose(1, 2), None, group.past)
        latents, _ = cache.view(0, group.keys, query.dtype)
        attend = self._absorbed if group.queries == 1 else self._expanded
        return attend(content, turned, latents[:, 0], group)

    def _expansion(self) -> tuple[Tensor, Tensor]:
        """The parts of `kv_up` that make keys and values, [heads, dim, kv_rank]."""
        weight = self.kv_up.weight.view(self.heads, -1, self.dims.kv_rank)
        return weight[:, : self.dims.nope_dim], weight[:, self.dims.nope_dim :]

    def _absorbed(self, content: Tensor, turned: Tensor, latents: Tensor, group: Group) -> Tensor:
        """One query a request: attend in the latent space, [requests, keys, kv_rank + rope_dim]."""
        to_key, to_value = self._expansion()
        absorbed = torch.bmm(content[:, 0].transpose(0, 1), to_key).transpose(0, 1)
        query = torch.cat((absorbed, turned[:, 0]), dim=-1)
        weights = (torch.bmm(query, latents.transpose(1, 2)) * self.scale).softmax(dim=-1)
        mixed = torch.bmm(weights, latents[..., : self.dims.kv_rank])
        values = torch.bmm(mixed.transpose(0, 1), to_value.transpose(1, 2))
        return values.transpose(0, 1).reshape(group.tokens, -1)

    def _expanded(self, content: Tensor, turned: Tensor, latents: Tensor, group: Group) -> Tensor:
        """Many queries a request: expand the latents to keys and values of every head."""
        compressed, position = torch.split(latents, [self.dims.kv_rank, self.dims.rope_dim], dim=-1)
        heads = self.kv_up(compressed).view(group.requests, group.keys, self.heads, -1)
        key, value = torch.split(heads, [self.dims.nope_dim, self.dims.value_dim], dim=-1)
        shared = position[:, :, None].expand(-1, -1, self.heads, -1)
        key = torch.cat((key, shared), dim=-1).transpose(1, 2)
        query = torch.cat((content, turned), dim=-1).transpose(1, 2)
        # The fused kernels take values as wide as keys: pad them, as engines do.
        padded = functional.pad(value, (0, key.shape[-1] - value.shape[-1])).transpose(1, 2)
        result = self.fused(query, key, padded, group, None)
        return result[..., : self.dims.value_dim].transpose(1, 2).reshape(group.tokens, -1)
