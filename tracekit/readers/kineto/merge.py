"""What several processes gathered of one file, put together as one process would have gathered it."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.readers.kineto.columns import Parts, Pool, Spans
from tracekit.readers.kineto.gather import POOLS, SPANS, Gathered

_Codes = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]
_CODED = {"thread": "threads", "signature": "signatures", "grid": "grids", "block": "blocks"}
"""Which pool a column's codes are of, beside each table's own names."""


def merge(own: Gathered, other: Gathered) -> None:
    """Add to `own` what another process gathered of the same rank; rows and codes in the order of the file."""
    own.counts.update(other.counts)
    own.unknown.update(other.unknown)
    own.xla |= other.xla
    again = {name: _merge_pools(getattr(own, name), getattr(other, name)) for name in POOLS}
    for name in SPANS:
        _merge_spans(getattr(own, name), getattr(other, name), again)


def _merge_pools(own: Pool[Any], other: Pool[Any]) -> _Codes:
    """New codes by old code, of one's own values and of the other's; the last, for none, stays -1.

    Values are in order of first sight, within a batch, which one process read, in order of code.
    """
    sights = [
        (batch, code, value)
        for pool in (own, other)
        for value, code, batch in zip(pool.codes, range(len(pool.codes)), pool.codes.seen, strict=True)
    ]
    before = (list(own.codes), list(other.codes))
    own.restart()
    for batch, _, value in sorted(sights, key=lambda sight: sight[:2]):
        own.clock.batch = batch
        own.codes[value]
    mine, others = (np.array([*(own.codes[value] for value in values), -1], np.int32) for values in before)
    return mine, others


def _merge_spans(own: Spans, other: Spans, pools: dict[str, _Codes]) -> None:
    own.bad_times += other.bad_times
    again = {**pools, "names": _merge_pools(own.names, other.names)}
    _recode(own.parts, again, 0)
    _recode(other.parts, again, 1)
    order = np.argsort([*own.parts.batches, *other.parts.batches], kind="stable")
    for name in own.parts.pieces or other.parts.pieces:
        pieces = [*own.parts.pieces.get(name, []), *other.parts.pieces.get(name, [])]
        own.parts.pieces[name] = [pieces[at] for at in order]
    own.parts.batches = sorted([*own.parts.batches, *other.parts.batches])


def _recode(parts: Parts, again: dict[str, _Codes], whose: int) -> None:
    for name, pool in (("name", "names"), *_CODED.items()):
        if name in parts.pieces:
            parts.pieces[name] = [again[pool][whose][piece] for piece in parts.pieces[name]]
