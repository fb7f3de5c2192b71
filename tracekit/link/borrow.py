"""Signatures borrowed from a shape pass: the same seeded work, recorded once for times and once for shapes."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import innermost, nest
from tracekit.tables import Capture, QualityNote

Ints = npt.NDArray[np.int64]
DIMS_SOURCE = "dims_source"


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A capture whose ops carry another capture's signatures.

    Attributes:
        capture: The borrower; its ops have a further column `dims_source`: `donor` or null.
        aligned: Ops that found their twin.
        share: Their share of the borrower's op time.
    """

    capture: Capture
    aligned: int
    share: float


def borrow_signatures(timing: Capture, shapes: Capture) -> Borrowed:
    """Give the ops of a capture without shapes the recorded signatures of a second pass of the same work.

    The k-th call of an op inside the k-th range of a name is the same call in both passes. Ranges that one pass alone
    has are passed over: PyTorch records the calls of compiled graphs as ranges only where it records shapes. A name whose
    calls inside a range differ in number between the passes is not aligned at all: a wrong twin would be
    worse than none.
    """
    shared = set(timing.annotations["name"].astype(object)) & set(shapes.annotations["name"].astype(object))
    mine, theirs = _places(timing, shared), _places(shapes, shared)
    keys = ["range", "visit", "name", "call"]
    group = ["range", "visit", "name"]
    merged = mine.merge(
        theirs[[*keys, "signature", "calls"]],
        on=keys,
        how="left",
        validate="one_to_one",
        suffixes=("", "_theirs"),
    )
    merged["signature_theirs"] = merged["signature_theirs"].where(merged["calls"] == merged["calls_theirs"])
    merged = merged.sort_values("row", kind="stable")
    found = merged["signature_theirs"].notna().to_numpy()
    offset = len(timing.signatures)
    signature = np.where(
        found,
        merged["signature_theirs"].fillna(0).to_numpy(dtype=np.int64) + offset,
        merged["signature"].to_numpy(dtype=np.int64),
    )
    ops = timing.ops.assign(signature=pd.array(signature, dtype="Int32"))
    ops[DIMS_SOURCE] = pd.Categorical(
        ["donor" if aligned else None for aligned in found], categories=["donor"]
    )
    signatures = pd.concat(
        [timing.signatures.astype(object), shapes.signatures.astype(object)], ignore_index=True
    ).astype("category")
    time = timing.ops["dur_ns"].to_numpy(dtype=np.int64)
    share = float(time[found].sum() / time.sum()) if time.sum() else 0.0
    notes = (
        ()
        if found.all()
        else (
            QualityNote(
                "shapes_unaligned",
                int((~found).sum()),
                f"ops have no twin in the shape pass ({', '.join(group)} differ); their work is unknown",
                int(time[~found].sum()),
            ),
        )
    )
    return Borrowed(
        replace(timing, ops=ops, signatures=signatures, quality=(*timing.quality, *notes)),
        int(found.sum()),
        share,
    )


def _places(capture: Capture, shared: set[str]) -> pd.DataFrame:
    """Each op's place: range name, how often that name came before, op name, how often it was called there."""
    ops = capture.ops
    ranges = capture.annotations[capture.annotations["name"].isin(shared)].reset_index(drop=True)
    at = _enclosing(ranges, ops)
    names = ranges["name"].astype(object).to_numpy()
    visits = ranges.groupby("name", observed=True).cumcount().to_numpy()
    inside = at >= 0
    frame = pd.DataFrame(
        {
            "row": np.arange(len(ops)),
            "range": np.where(inside, names[at] if len(names) else "", ""),
            "visit": np.where(inside, visits[at] if len(visits) else 0, 0),
            "name": ops["name"].astype(object).to_numpy(),
            "signature": ops["signature"].to_numpy(dtype=np.int64),
        }
    )
    groups = frame.groupby(["range", "visit", "name"], sort=False)
    return frame.assign(call=groups.cumcount(), calls=groups["row"].transform("size"))


def _enclosing(annotations: pd.DataFrame, ops: pd.DataFrame) -> Ints:
    """Row of the innermost annotation around each op's start, on any thread; -1 where there is none."""
    if annotations.empty:
        return np.full(len(ops), -1, np.int64)
    starts = annotations["ts_ns"].to_numpy(dtype=np.int64)
    ends = starts + annotations["dur_ns"].to_numpy(dtype=np.int64)
    nesting = nest(starts, ends)
    order = nesting.order
    at = innermost(starts[order], ends[order], nesting.parent, ops["ts_ns"].to_numpy(dtype=np.int64))
    return np.where(at >= 0, order[np.maximum(at, 0)], -1)
