"""Attention from the sums over a step's requests, where an op recorded its heads and the key lengths are device data."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.work.attention import step_attention
from tracekit.work.registered import Heads, OpWork

Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

_SUMS = ("sum_q", "sum_k", "sum_qq", "sum_qk")
_CONTEXT = ("context_tokens", "context_sum_k", "context_sum_qq", "context_sum_qk")
_REQUESTS = ("context_requests", "generation_requests")


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over the requests of each kernel's step; NaN is unknown.

    Attributes:
        query_key: Query tokens, key tokens, squared query tokens, query tokens times key tokens; a column each.
        context: The part in them of the requests that prefill.
        requests: Requests that prefill, and those that decode; a column each.
    """

    query_key: Floats
    context: Floats
    requests: Floats

    @classmethod
    def of(cls, steps: pd.DataFrame, step_ids: npt.NDArray[np.floating]) -> "Sums":
        """The sums of the steps with these ids."""
        known = steps.drop_duplicates("step_id").set_index("step_id")
        wanted = known.reindex(columns=[*_SUMS, *_CONTEXT, *_REQUESTS]).astype("float64").reindex(step_ids)
        whole, context, requests = (
            wanted[[*names]].to_numpy(np.float64) for names in (_SUMS, _CONTEXT, _REQUESTS)
        )
        return cls(whole, context, requests)

    @property
    def generation(self) -> Floats:
        """The part of the requests that decode."""
        return self.query_key - self.context

    @property
    def known(self) -> Bools:
        """Where all four sums are known."""
        return np.asarray(~np.isnan(self.query_key).any(axis=1), dtype=np.bool_)

    @property
    def one_each(self) -> Bools:
        """Steps of one query token a request: the sum of squares is the sum only then."""
        return _one_each(self.query_key)

    @property
    def mixed(self) -> Bools:
        """Steps in which some requests prefill and others decode."""
        return np.asarray((self.requests > 0).all(axis=1), dtype=np.bool_)

    @property
    def apart(self) -> Bools:
        """Mixed steps of which the sums of both sides are known."""
        return np.asarray(self.mixed & self.known & ~np.isnan(self.context).any(axis=1), dtype=np.bool_)

    @property
    def two_forms(self) -> Bools:
        """Mixed steps in which MLA is expanded for the one side and absorbed for the other, a query token a request."""
        return self.apart & ~self.one_each & _one_each(self.generation)

    def where(self, chosen: Bools) -> "Sums":
        """Some of the rows."""
        return Sums(self.query_key[chosen], self.context[chosen], self.requests[chosen])


def _one_each(sums: Floats) -> Bools:
    return np.asarray(sums[:, 2] == sums[:, 0], dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one form of attention does in some steps.

    Attributes:
        heads: Its heads.
        chosen: The steps.
        sums: The sums over its requests, of every step.
        requests: Its requests, of every step.
    """

    heads: Heads
    chosen: Bools
    sums: Floats
    requests: Floats


def attention_from_sums(
    work: OpWork, sums: Sums, cache_item: float | None = None
) -> tuple[Floats, Floats, Floats]:
    """FLOPs, DRAM bytes, and the K and V bytes among them, of one call in each of some steps.

    MLA that is absorbed for one query token a request and expanded for more does both in a mixed step: the parts
    are added where the step says the sums of each side. A call with fewer query tokens than its mixed step serves
    the side that has as many.

    Args:
        work: The call's heads.
        sums: The sums of each step.
        cache_item: Bytes of a cached element, where the heads do not know.

    Returns:
        Three arrays over the steps; NaN where the sums do not say.
    """
    found = np.full((3, len(sums.query_key)), np.nan)
    for part in _parts(work, sums):
        rows = part.chosen
        item = part.heads.kv_item or cache_item
        more = step_attention(part.heads, *part.sums[rows].T, kv_item=item, requests=part.requests[rows])
        found[:, rows] = np.where(np.isnan(found[:, rows]), 0.0, found[:, rows]) + np.asarray(more)
    return found[0], found[1], found[2]


def _parts(work: OpWork, sums: Sums) -> list[_Part]:
    """The forms of attention that a call has, and in which steps."""
    whole, both = sums.query_key, sums.requests.sum(axis=1)
    if work.absorbed is None:
        parts = [] if work.heads is None else _by_side(work.heads, work.queries, sums)
    else:
        parts = [_Part(work.absorbed, sums.known & sums.one_each, whole, both)]
        if work.heads is not None:
            rest = sums.known & ~sums.one_each & ~sums.mixed
            parts.append(_Part(work.heads, rest, whole, both))
            parts.append(_Part(work.heads, sums.two_forms, sums.context, sums.requests[:, 0]))
            parts.append(_Part(work.absorbed, sums.two_forms, sums.generation, sums.requests[:, 1]))
    kept = [replace(part, chosen=part.chosen & _same_keys(part)) for part in parts]
    return [part for part in kept if part.chosen.any()]


def _by_side(heads: Heads, queries: int | None, sums: Sums) -> list[_Part]:
    """The whole step, or where the call had fewer queries than a mixed step the side with as many."""
    whole, both = sums.query_key, sums.requests.sum(axis=1)
    if queries is None:
        return [_Part(heads, sums.known, whole, both)]
    # Padding to the size of a captured graph gives more, never fewer.
    fewer = sums.mixed & (whole[:, 0] > queries)
    parts = [_Part(heads, sums.known & ~fewer, whole, both)]
    context, generation = sums.context, sums.generation
    told = fewer & sums.apart & (context[:, 0] != generation[:, 0])
    for side, requests in ((context, sums.requests[:, 0]), (generation, sums.requests[:, 1])):
        parts.append(_Part(heads, told & (side[:, 0] == queries), side, requests))
    return parts


def _same_keys(part: _Part) -> Bools:
    """Steps that have as many keys as the call was given; all where it reads a cache."""
    keys = part.heads.keys
    if keys is None:
        return np.ones(len(part.chosen), dtype=np.bool_)
    return np.asarray(part.sums[:, 1] == keys, dtype=np.bool_)
