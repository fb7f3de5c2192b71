"""The KV cache: allocated at depth with random content, so that nothing has to be decoded up to it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tracekit.models import ModelConfig


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Keys and values of one layer, [requests, kv_heads, capacity, head_dim]; for MLA latents and nothing.

    Attributes:
        keys: Keys; for MLA the compressed latent with the shared positional key, [requests, 1, capacity, width].
        values: Values; for MLA a view of the latent part of `keys`.
    """

    keys: Tensor
    values: Tensor

    def append(self, keys: Tensor, values: Tensor | None, past: int) -> None:
        """Write new entries, [requests, kv_heads, queries, head_dim], behind the first `past` ones."""
        stop = past + keys.shape[2]
        self.keys[:, :, past:stop].copy_(keys)
        if values is not None:
            self.values[:, :, past:stop].copy_(values)

    def view(self, start: int, stop: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Keys and values of the positions start to stop: views, or copies where the cache has another type."""
        return self.keys[:, :, start:stop].to(dtype), self.values[:, :, start:stop].to(dtype)


def allocate(
    config: ModelConfig, requests: int, capacity: int, dtype: torch.dtype, generator: torch.Generator
) -> tuple[LayerCache, ...]:
    """One cache a layer, filled with normal random numbers.

    Args:
        config: The model.
        requests: Requests that the cache holds.
        capacity: Tokens of each.
        dtype: Type of the entries.
        generator: Source of the content; its device is that of the cache.
    """
    return tuple(_layer(config, requests, capacity, dtype, generator) for _ in range(config.layers))


def _layer(
    config: ModelConfig, requests: int, capacity: int, dtype: torch.dtype, generator: torch.Generator
) -> LayerCache:
    if config.latent is not None:
        width = config.latent.kv_rank + config.latent.rope_dim
        latents = _random((requests, 1, capacity, width), dtype, generator)
        return LayerCache(latents, latents[..., : config.latent.kv_rank])
    shape = (requests, config.kv_heads, capacity, config.head_dim)
    return LayerCache(_random(shape, dtype, generator), _random(shape, dtype, generator))


def _random(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    if dtype.itemsize > 1:
        return torch.empty(shape, dtype=dtype, device=generator.device).normal_(generator=generator)
    # No random kernels exist for 8-bit floats: draw in 16 bits and round.
    return (
        torch.empty(shape, dtype=torch.bfloat16, device=generator.device)
        .normal_(generator=generator)
        .to(dtype)
    )
