"""Attention from the sums over a step's requests, where an op recorded its heads and the key lengths are device data."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.work.attention import step_attention
from tracekit.work.registered import Heads, OpWork

Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

_SUMS = ("sum_q", "sum_k", "sum_qq", "sum_qk")
_REQUESTS = ("context_requests", "generation_requests")


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over the requests of each kernel's step; NaN is unknown.

    Attributes:
        query_key: Query tokens, key tokens, squared query tokens, query tokens times key tokens; a column each.
        requests: Requests that prefill, and those that decode; a column each.
    """

    query_key: Floats
    requests: Floats

    @classmethod
    def of(cls, steps: pd.DataFrame, step_ids: npt.NDArray[np.floating]) -> "Sums":
        """The sums of the steps with these ids."""
        known = steps.drop_duplicates("step_id").set_index("step_id")
        wanted = known.reindex(columns=[*_SUMS, *_REQUESTS]).astype("float64").reindex(step_ids)
        return cls(wanted[[*_SUMS]].to_numpy(np.float64), wanted[[*_REQUESTS]].to_numpy(np.float64))

    @property
    def known(self) -> Bools:
        """Where all four sums are known."""
        return np.asarray(~np.isnan(self.query_key).any(axis=1), dtype=np.bool_)

    @property
    def one_each(self) -> Bools:
        """Steps of one query token a request: the sum of squares is the sum only then."""
        return np.asarray(self.query_key[:, 2] == self.query_key[:, 0], dtype=np.bool_)

    @property
    def mixed(self) -> Bools:
        """Steps in which some requests prefill and others decode."""
        return np.asarray((self.requests > 0).all(axis=1), dtype=np.bool_)

    def where(self, chosen: Bools) -> "Sums":
        """Some of the rows."""
        return Sums(self.query_key[chosen], self.requests[chosen])


def attention_from_sums(
    work: OpWork, sums: Sums, cache_item: float | None = None
) -> tuple[Floats, Floats, Floats]:
    """FLOPs, DRAM bytes, and the K and V bytes among them, of one call in each of some steps.

    MLA that is absorbed for one query token a request and expanded for more says nothing of a mixed step: its two
    kernels share the sums.

    Args:
        work: The call's heads.
        sums: The sums of each step.
        cache_item: Bytes of a cached element, where the heads do not know.

    Returns:
        Three arrays over the steps; NaN where the sums do not say.
    """
    found = np.full((3, len(sums.query_key)), np.nan)
    for heads, chosen in _heads(work, sums):
        part = sums.where(chosen)
        item = heads.kv_item or cache_item
        found[:, chosen] = step_attention(
            heads, *part.query_key.T, kv_item=item, requests=part.requests.sum(axis=1)
        )
    return found[0], found[1], found[2]


def _heads(work: OpWork, sums: Sums) -> list[tuple[Heads, Bools]]:
    """The heads that apply, and in which steps."""
    one_each = sums.known & sums.one_each
    rest = sums.known if work.absorbed is None else sums.known & ~sums.one_each & ~sums.mixed
    found = [] if work.absorbed is None else [(work.absorbed, one_each)]
    if work.heads is not None:
        keys = work.heads.keys
        found.append((work.heads, rest if keys is None else rest & (sums.query_key[:, 1] == keys)))
    return [(heads, chosen) for heads, chosen in found if chosen.any()]
