"""What one step computes: groups of requests alike, side by side in one batch of tokens."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that schedule the same number of tokens on the same number of cached ones.

    Attributes:
        requests: Number of requests.
        queries: Tokens that each schedules.
        past: Tokens that each has in the cache.
        caches: What the model keeps of them: for the decoder a `LayerCache` a layer.
    """

    requests: int
    queries: int
    past: int
    caches: Any
    _masks: dict[int | None, Tensor] = field(default_factory=dict, compare=False, repr=False)
    _blocks: dict[int | None, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def tokens(self) -> int:
        """Scheduled tokens of all requests."""
        return self.requests * self.queries

    @property
    def keys(self) -> int:
        """Key length of each request, the scheduled tokens included."""
        return self.past + self.queries

    def mask(self, window: int | None, device: torch.device) -> Tensor:
        """Which keys each query sees, [queries, keys]: those up to itself, and within the window. Made once."""
        if window not in self._masks:
            query = torch.arange(self.past, self.keys, device=device)[:, None]
            key = torch.arange(self.keys, device=device)[None, :]
            seen = key <= query
            self._masks[window] = seen if window is None else seen & (key > query - window)
        return self._masks[window]

    def block_mask(self, window: int | None, device: torch.device) -> Any:
        """The same as flex_attention takes it: by blocks, so that hidden ones are skipped. Made once."""
        if window not in self._blocks:
            from torch.nn.attention.flex_attention import create_block_mask  # noqa: PLC0415 - a second to import

            # Tensors, not numbers: a number would be compiled into the kernel, anew for each length.
            past = torch.tensor(self.past, device=device)
            reach = torch.tensor(self.keys if window is None else window, device=device)

            def seen(_request: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
                return (key <= query + past) & (key > query + past - reach)

            self._blocks[window] = create_block_mask(
                seen, None, None, self.queries, self.keys, device=str(device)
            )
        return self._blocks[window]


@dataclass(frozen=True, slots=True)
class StepInput:
    """One step.

    Attributes:
        groups: Its groups; their tokens lie one after the other, request by request.
        last_rows: Rows of the last token of each request, [requests]; None where every row is one.
    """

    groups: tuple[Group, ...]
    last_rows: Tensor | None

    @classmethod
    def of(cls, groups: tuple[Group, ...], device: torch.device) -> "StepInput":
        """The step of these groups."""
        if all(group.queries == 1 for group in groups):
            return cls(groups, None)
        ends: list[int] = []
        start = 0
        for group in groups:
            ends.extend(start + group.queries * (n + 1) - 1 for n in range(group.requests))
            start += group.tokens
        return cls(groups, torch.tensor(ends, device=device))

    @property
    def tokens(self) -> int:
        """Scheduled tokens."""
        return sum(group.tokens for group in self.groups)

    def slices(self) -> Iterator[tuple[Group, slice]]:
        """Each group and the rows of its tokens."""
        start = 0
        for group in self.groups:
            yield group, slice(start, start + group.tokens)
            start += group.tokens
