"""The fused attention kernels that a decoder may use, behind one signature."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from collectors.compiling import named_kernels
from collectors.decoder.step import Group

Attend = Callable[[Tensor, Tensor, Tensor, Group, int | None], Tensor]
"""query [requests, heads, queries, dim], keys and values [requests, kv_heads, keys, dim], group, window: as query."""


def fused(implementation: str) -> Attend:
    """The kernel of a word: `sdpa` (PyTorch chooses), `flash` (its flash kernel or nothing), `flex`."""
    return {"flash": _flash, "flex": _flex}.get(implementation, _sdpa)


def needs_mask(group: Group, window: int | None) -> bool:
    """Whether some keys must be hidden in another way than by causality alone.

    A single query sees every key that it is given. Behind cached tokens the kernels' own causal flag would align the
    queries with the first keys.
    """
    return group.queries > 1 and (group.past > 0 or (window is not None and window < group.keys))


def prepare(implementation: str, group: Group, window: int | None, device: torch.device) -> None:
    """Make the masks of a group before it is timed: what a step makes itself would count as its work."""
    if implementation == "flex" and group.queries > 1:
        group.block_mask(window, device)
    elif needs_mask(group, window) or (implementation == "eager" and group.queries > 1):
        group.mask(window, device)


def _sdpa(query: Tensor, keys: Tensor, values: Tensor, group: Group, window: int | None) -> Tensor:
    attend = functional.scaled_dot_product_attention
    grouped = query.shape[1] != keys.shape[1]
    # Branches, not an expression for `is_causal`: compiled with dynamic lengths, it would be no bool.
    if group.queries == 1:
        return attend(query, keys, values, enable_gqa=grouped)
    if needs_mask(group, window):
        return attend(query, keys, values, attn_mask=group.mask(window, query.device), enable_gqa=grouped)
    return attend(query, keys, values, is_causal=True, enable_gqa=grouped)


def _flash(query: Tensor, keys: Tensor, values: Tensor, group: Group, window: int | None) -> Tensor:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return _sdpa(query, keys, values, group, window)


def _flex(query: Tensor, keys: Tensor, values: Tensor, group: Group, window: int | None) -> Tensor:
    mask = group.block_mask(window, query.device) if group.queries > 1 else None
    out: Tensor = _compiled_flex(query.device.type)(
        query, keys, values, block_mask=mask, enable_gqa=query.shape[1] != keys.shape[1]
    )
    return out


@cache
def _compiled_flex(device: str) -> Any:
    """flex_attention, compiled: uncompiled it computes every score in memory, which is not what it is for."""
    from torch.nn.attention.flex_attention import flex_attention  # noqa: PLC0415 - takes a second to import

    named_kernels(torch.device(device))
    return torch.compile(flex_attention)
