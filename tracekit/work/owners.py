"""Whose work a kernel does: the nearest modelled op around its launch, composites standing down for inner ops."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import levels
from tracekit.tables import Kind
from tracekit.tables.text import is_word
from tracekit.work.registered import OpKind
from tracekit.work.signed import Signed

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_KINDS = list(OpKind)
_VIEW, _LATENT = _KINDS.index(OpKind.VIEW), _KINDS.index(OpKind.LATENT)
_POINTWISE = (OpKind.ELEMENTWISE, OpKind.REDUCTION)

# An op of the kind on the left has done its work through inner ops of the kinds on the right.
_DONE_BY = {
    OpKind.GEMM: (OpKind.GEMM,),
    OpKind.ATTENTION: (OpKind.ATTENTION, OpKind.GEMM),
    # Its products are ops beside its attention, not instead of it.
    OpKind.LATENT: (OpKind.LATENT, OpKind.ATTENTION),
    OpKind.MOE: (OpKind.MOE, OpKind.GEMM),
    OpKind.CONV: (OpKind.CONV, OpKind.GEMM),
    OpKind.NORM: (OpKind.NORM, *_POINTWISE),
    OpKind.SOFTMAX: (OpKind.SOFTMAX,),
    OpKind.ELEMENTWISE: (OpKind.ELEMENTWISE,),
    OpKind.REDUCTION: (OpKind.REDUCTION,),
    OpKind.GATHER: (OpKind.GATHER,),
    OpKind.COPY: (OpKind.COPY, OpKind.FILL),
    OpKind.FILL: (OpKind.FILL,),
    OpKind.QUANT: (OpKind.QUANT, OpKind.ELEMENTWISE),
    OpKind.KV_WRITE: (OpKind.KV_WRITE, OpKind.COPY, OpKind.GATHER),
    OpKind.ROPE: (OpKind.ROPE, OpKind.ELEMENTWISE),
    OpKind.SAMPLING: (OpKind.SAMPLING, OpKind.SOFTMAX, OpKind.REDUCTION, OpKind.ELEMENTWISE),
    OpKind.SSM: (OpKind.SSM,),
    OpKind.COLLECTIVE: (OpKind.COLLECTIVE,),
}


@dataclass(frozen=True, slots=True)
class Owners:
    """The op that each kernel works for.

    Attributes:
        op: Row of OP_TREE; -1 where no modelled op is around the launch.
        signature: Its row of SIGNATURES; -1 likewise.
        own: Whether that op is the innermost one.
        cpu: Whether the row is an op's self time, not a device kernel.
        active: Whether the op's model gives work that one of its kernels does.
        covered: Whether other rows have done its work: the self time of a composite.
        in_latent: Whether that op is inside MLA's.
    """

    op: Ints
    signature: Ints
    own: Bools
    cpu: Bools
    active: Bools
    covered: Bools
    in_latent: Bools


def find_owners(kernels: pd.DataFrame, ops: pd.DataFrame, signed: Signed) -> Owners:
    """Walk from each kernel's op up to the nearest op with a model; copies and fills own themselves."""
    rows = kernels["op_row"].to_numpy(dtype=np.int64, na_value=-1)
    cpu = is_word(kernels, "kind", Kind.CPU_OP)
    work = is_word(kernels, "kind", Kind.KERNEL) | cpu
    if ops.empty or not len(signed.work):
        nowhere = np.full(len(kernels), -1, dtype=np.int64)
        no = np.zeros(len(kernels), dtype=np.bool_)
        return Owners(nowhere, nowhere.copy(), no, cpu, no.copy(), no.copy(), no.copy())
    tree = _Tree(ops, signed)
    inside = work & (rows >= 0)
    owner = np.where(
        cpu,
        tree.nearest(tree.kind >= 0, np.where(inside & cpu, rows, -1)),
        tree.nearest(tree.working, np.where(inside & ~cpu, rows, -1)),
    )
    owned = owner >= 0
    signature = np.where(owned, tree.signature[owner], -1)
    down = owned & tree.stood_down[owner]
    active = owned & ~down & tree.has_work[owner]
    own = owned & (owner == rows)
    # What MLA's op launches itself beside its attention op may be a product.
    latent = owned & (np.where(owned, signed.kind[signature], -1) == _LATENT)
    covered = (down & (cpu | (own & ~latent))) | (cpu & inside & ~owned & tree.has_inner_work[rows])
    in_latent = owned & ~latent & (tree.nearest(tree.kind == _LATENT, owner) >= 0)
    return Owners(owner, signature, own, cpu, active, covered, in_latent)


class _Tree:
    """Columns of the op tree that the walk needs."""

    def __init__(self, ops: pd.DataFrame, signed: Signed) -> None:
        self.signature = ops["signature"].to_numpy(dtype=np.int64)
        self.parent = ops["parent"].to_numpy(dtype=np.int64)
        self.kind = signed.kind[self.signature]
        self.working = (self.kind >= 0) & (self.kind != _VIEW)
        works = np.array([work is not None for work in signed.work], dtype=np.bool_)
        self.has_work = works[self.signature] & (self.kind >= 0)
        bits = np.where(self.has_work & self.working, np.left_shift(1, np.maximum(self.kind, 0)), 0)
        inner = _inner(bits, self.parent, levels(ops["depth"].to_numpy(dtype=np.int64)))
        self.has_inner_work = inner != 0
        self.stood_down = self.working & ((inner & _done_by()[self.kind]) != 0)

    def nearest(self, chosen: Bools, rows: Ints) -> Ints:
        """Of each of some ops the op itself where it is chosen, else the nearest chosen op above it; -1 for none."""
        if not chosen.any():
            return np.full(len(rows), -1, dtype=np.int64)
        at = rows.copy()
        asking = np.flatnonzero(at >= 0)
        while len(asking):
            asking = asking[~chosen[at[asking]]]
            at[asking] = self.parent[at[asking]]
            asking = asking[at[asking] >= 0]
        return at


def _done_by() -> Ints:
    """Bits of the kinds that do the work of each kind, by its position in OpKind."""
    return np.array(
        [sum(1 << _KINDS.index(inner) for inner in _DONE_BY.get(kind, ())) for kind in _KINDS], dtype=np.int64
    )


def _inner(bits: Ints, parent: Ints, tiers: list[Ints]) -> Ints:
    """Bits of everything below each op."""
    inner = np.zeros_like(bits)
    for rows in reversed(tiers):
        below = rows[parent[rows] >= 0]
        np.bitwise_or.at(inner, parent[below], bits[below] | inner[below])
    return inner
