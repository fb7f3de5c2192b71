"""From op models to kernels: whose work a kernel does, and which kernel of an op does it."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.tables import Kind, WorkSource
from tracekit.tables.calls import DEVICE_COPY
from tracekit.tables.text import coded, matches, where
from tracekit.work.known import COLUMNS, TEXT
from tracekit.work.operands import operand_items
from tracekit.work.owners import Owners, find_owners
from tracekit.work.registered import NOTHING, OpKind, OpWork
from tracekit.work.signed import Signed, evaluate_signatures
from tracekit.work.sums import Sums, attention_from_sums
from tracekit.work.windows import forget_windowed

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Source: TypeAlias = WorkSource | npt.NDArray[np.object_]

# Column that tells apart several runs of one op, as graph replays are; absent where an op ran once.
INSTANCE = "op_instance"

# Families, by how their names begin, that fit a kind of op; the kernel of another family is an auxiliary one.
_FITS = {
    OpKind.GEMM: ("gemm", "gemv", "moe.gemm"),
    OpKind.ATTENTION: ("attn", "attention", "mla"),
    OpKind.LATENT: ("attn", "attention", "mla"),
    OpKind.MOE: ("moe.gemm", "gemm", "gemv"),
    OpKind.CONV: ("conv", "gemm"),
    OpKind.NORM: ("norm",),
    OpKind.SOFTMAX: ("softmax", "sampling"),
    OpKind.QUANT: ("quant",),
    OpKind.KV_WRITE: ("kv",),
    OpKind.ROPE: ("rope", "norm"),
    OpKind.SSM: ("ssm",),
    OpKind.COLLECTIVE: ("comm",),
}
_AUXILIARY = ("aux", "combine", "meta", "reduce")
# Kinds whose math runs on matrix units, where the type in a kernel's name says more than the op's.
_MATRIX_PEAKS = frozenset({"fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4"})


@dataclass(slots=True)
class Columns:
    """The work columns while they are filled; NaN and None are unknown."""

    flops: Floats
    dram_bytes: Floats
    weight_bytes: Floats
    kv_bytes: Floats
    bus_bytes: Floats
    expected_bytes: Floats
    flops_source: npt.NDArray[np.object_]
    dram_bytes_source: npt.NDArray[np.object_]
    dtype: npt.NDArray[np.object_]
    peak: npt.NDArray[np.object_]

    @classmethod
    def unknown(cls, rows: int) -> "Columns":
        """Columns in which nothing is known yet."""
        floats = [np.full(rows, np.nan) for _ in range(6)]
        objects = [np.full(rows, None, dtype=object) for _ in range(4)]
        return cls(*floats, *objects)

    def put(self, rows: Bools | Ints, flops: Floats, dram_bytes: Floats, source: Source) -> None:
        """Set work where it is a number, with its source."""
        self.flops[rows] = flops
        self.dram_bytes[rows] = dram_bytes
        self.flops_source[rows] = _where_known(flops, source)
        self.dram_bytes_source[rows] = _where_known(dram_bytes, source)

    def frame(self, index: pd.Index) -> pd.DataFrame:
        """The columns as a frame; text as categories."""
        values = {name: getattr(self, name) for name in COLUMNS}
        return pd.DataFrame(
            {name: coded(column) if name in TEXT else column for name, column in values.items()},
            index=index,
        )


def _where_known(values: Floats, source: Source) -> npt.NDArray[np.object_]:
    sources = np.full(len(values), None, dtype=object)
    known = ~np.isnan(values)
    sources[known] = str(source) if isinstance(source, WorkSource) else source[known]
    return sources


def model_work(
    kernels: pd.DataFrame,
    ops: pd.DataFrame,
    signatures: pd.DataFrame,
    steps: pd.DataFrame | None = None,
    *,
    source: WorkSource = WorkSource.SHAPE,
) -> pd.DataFrame:
    """FLOPs and minimum DRAM bytes of each kernel, from the recorded sizes of the op around its launch.

    An op's work goes to its main kernel: the longest of a family that fits the op, else the longest. Its other
    kernels do no useful work of their own (0 FLOP) and their bytes are unknown. Copies and fills are counted by
    their recorded bytes: device to device read and written, host copies and fills once. Attention whose key
    lengths are device data is completed from the sums of its step, save for layers whose times say that they
    are windowed.

    Args:
        kernels: LINKED rows; `family`, `name_dtype` and `step_id` are used where present.
        ops: OP_TREE, with `dims_source` where signatures were borrowed.
        signatures: SIGNATURES, to which `ops.signature` points.
        steps: STEPS with `step_id` and the sums over requests; may be absent.
        source: Where the recorded sizes come from; an op's own `dims_source` comes first.

    Returns:
        The kernels with dtype, flops [FLOP], flops_source, dram_bytes [byte], dram_bytes_source, and the internal
        columns weight_bytes [byte], kv_bytes [byte], bus_bytes [byte], expected_bytes [byte] and peak.
    """
    signed = evaluate_signatures(signatures)
    owners = find_owners(kernels, ops, signed)
    columns = Columns.unknown(len(kernels))
    sources = _sources(ops, owners, source)
    instances = _instances(kernels, owners)
    beside = _beside(kernels, owners, signed)
    mains = main_kernels(kernels, owners, instances, signed)
    mains = mains[~beside[mains]]
    _mains(columns, owners, mains, signed, sources)
    _share_experts(columns, kernels, owners, instances, mains, signed)
    windowed = np.zeros(len(kernels), dtype=np.bool_)
    if steps is not None and "step_id" in kernels:
        told, two = _from_sums(columns, kernels, steps, owners, mains, signed)
        windowed[told] = True
        _share_forms(columns, kernels, owners, instances, two, signed)
    _auxiliaries(columns, owners, instances, mains, sources, beside)
    _transfers(columns, kernels)
    name_types(columns, kernels)
    _named_bytes(columns, kernels, mains, [signed.work[row] or NOTHING for row in owners.signature[mains]])
    kept = kernels.drop(columns=[name for name in COLUMNS if name in kernels])
    return forget_windowed(pd.concat([kept, columns.frame(kernels.index)], axis=1), windowed)


def _sources(ops: pd.DataFrame, owners: Owners, source: WorkSource) -> npt.NDArray[np.object_]:
    """Where the sizes of each kernel's op come from."""
    sources = np.full(len(owners.op), str(source), dtype=object)
    if "dims_source" in ops and len(ops):
        borrowed = ops["dims_source"].astype(object).to_numpy()[owners.op]
        said = (owners.op >= 0) & ~pd.isna(borrowed)
        sources[said] = borrowed[said]
    return sources


def _instances(kernels: pd.DataFrame, owners: Owners) -> Ints:
    """A number for each run of an op; -1 where there is none."""
    if INSTANCE not in kernels:
        return owners.op
    runs = kernels[INSTANCE].to_numpy(dtype=np.int64)
    return np.where(owners.op >= 0, owners.op + runs * (owners.op.max(initial=0) + 1), -1)


def main_kernels(kernels: pd.DataFrame, owners: Owners, instances: Ints, signed: Signed) -> Ints:
    """Positions of the kernels that do an op's work: one for each run of an op that has a model and a kernel.

    On a CPU-only trace the op's own row; elsewhere the longest kernel of a family that fits the op.
    """
    asked = np.flatnonzero(owners.active)
    if not len(asked):
        return asked
    op = instances[asked]
    kinds = signed.kind[owners.signature[asked]]
    own = owners.own[asked] & owners.cpu[asked]
    fits = _family_fits(kernels, asked, kinds)
    duration = kernels["dur_ns"].to_numpy(dtype=np.int64)[asked]
    order = np.lexsort((-duration, ~fits, ~own, op))
    first = np.concatenate(([True], op[order][1:] != op[order][:-1]))
    return asked[order[first]]


def _family_fits(kernels: pd.DataFrame, rows: Ints, kinds: npt.NDArray[np.int64]) -> Bools:
    # pandas 2.2 cannot factorise an empty MultiIndex.
    if "family" not in kernels or not len(rows):
        return np.zeros(len(rows), dtype=np.bool_)
    family = kernels["family"].astype(object).to_numpy()[rows]
    pairs = pd.MultiIndex.from_arrays([family, kinds])
    codes, distinct = pairs.factorize()
    verdict = np.array([_fits(str(name), int(kind)) for name, kind in distinct], dtype=np.bool_)
    return np.asarray(verdict[codes], dtype=np.bool_)


def _fits(family: str, kind: int) -> bool:
    wanted = _FITS.get(list(OpKind)[kind], ())
    return family.startswith(wanted) and not any(word in family for word in _AUXILIARY) if wanted else False


def _beside(kernels: pd.DataFrame, owners: Owners, signed: Signed) -> Bools:
    """Kernels of MLA's op that are no attention: products that it launches itself, of whose sizes nothing is known."""
    beside = np.zeros(len(kernels), dtype=np.bool_)
    rows = np.flatnonzero(owners.active & ~owners.cpu)
    kinds = signed.kind[owners.signature[rows]]
    latent = kinds == list(OpKind).index(OpKind.LATENT)
    rows, kinds = rows[latent], kinds[latent]
    beside[rows] = ~(_family_fits(kernels, rows, kinds) | _merging(kernels, rows))
    return beside


def _merging(kernels: pd.DataFrame, rows: Ints) -> Bools:
    """Kernels that merge the parts of a split attention, or plan it."""
    if "family" not in kernels:
        return np.zeros(len(rows), dtype=np.bool_)
    return np.asarray(where(kernels["family"], lambda name: name.startswith("attn."))[rows], dtype=np.bool_)


def _auxiliaries(
    columns: Columns,
    owners: Owners,
    instances: Ints,
    mains: Ints,
    sources: npt.NDArray[np.object_],
    beside: Bools,
) -> None:
    """Other kernels of an op whose operations are known: 0 FLOP; on a CPU their self time moves nothing either.

    Where only bytes are, as for ops that hide the size of a state, the others may compute as well.
    """
    known = mains[
        ~np.isnan(columns.flops[mains]) | (owners.cpu[mains] & ~np.isnan(columns.dram_bytes[mains]))
    ]
    rest = (owners.active & ~beside & np.isin(instances, instances[known])) | owners.covered
    rest[mains] = False
    rest &= np.isnan(columns.flops)
    columns.put(rest, np.zeros(int(rest.sum())), np.where(owners.cpu[rest], 0.0, np.nan), sources[rest])


def _mains(
    columns: Columns, owners: Owners, mains: Ints, signed: Signed, sources: npt.NDArray[np.object_]
) -> None:
    works = [signed.work[signature] or NOTHING for signature in owners.signature[mains]]
    flops, dram_bytes = (
        _numbers([work.flops for work in works]),
        _numbers([work.dram_bytes for work in works]),
    )
    columns.put(mains, flops, dram_bytes, sources[mains])
    known = ~np.isnan(dram_bytes)
    weights = _numbers([work.weight_bytes for work in works])
    # MLA multiplies queries and results by the expansion of its latent, a head each.
    weights += np.where(owners.in_latent[mains], _numbers([work.second_bytes for work in works]), 0.0)
    columns.weight_bytes[mains] = np.where(known, weights, np.nan)
    columns.kv_bytes[mains] = np.where(known, _numbers([work.kv_bytes for work in works]), np.nan)
    columns.expected_bytes[mains] = np.where(known, _numbers([work.expected_bytes for work in works]), np.nan)
    columns.bus_bytes[mains] = _numbers([work.bus_bytes for work in works])
    columns.dtype[mains] = [work.dtype for work in works]
    columns.peak[mains] = [work.peak for work in works]


def _share_experts(
    columns: Columns, kernels: pd.DataFrame, owners: Owners, instances: Ints, mains: Ints, signed: Signed
) -> None:
    """A mixture of experts is several grouped products: its work is shared among them by their time."""
    rows = np.flatnonzero(owners.active)
    kinds = signed.kind[owners.signature[rows]]
    moe = kinds == list(OpKind).index(OpKind.MOE)
    rows, kinds = rows[moe], kinds[moe]
    _share(columns, kernels, instances, mains, rows[_family_fits(kernels, rows, kinds)])


def _share_forms(
    columns: Columns, kernels: pd.DataFrame, owners: Owners, instances: Ints, mains: Ints, signed: Signed
) -> None:
    """MLA of a mixed step is one kernel a form, told by nothing: its work is shared among them by their time."""
    rows = np.flatnonzero(owners.active & np.isin(instances, instances[mains]))
    fits = _family_fits(kernels, rows, signed.kind[owners.signature[rows]])
    _share(columns, kernels, instances, mains, rows[fits])


def _share(columns: Columns, kernels: pd.DataFrame, instances: Ints, mains: Ints, rows: Ints) -> None:
    """Divide the work of each main kernel among the rows of its op's run, by their time."""
    if not len(rows):
        return
    main = pd.Series(mains, index=instances[mains]).reindex(instances[rows]).to_numpy(dtype=np.int64)
    time = pd.Series(kernels["dur_ns"].to_numpy(dtype=np.float64)[rows])
    share = np.asarray(time / time.groupby(instances[rows]).transform("sum"), dtype=np.float64)
    shared = (
        columns.flops,
        columns.dram_bytes,
        columns.weight_bytes,
        columns.kv_bytes,
        columns.expected_bytes,
    )
    for column in shared:
        column[rows] = column[main] * share
    for text in (columns.flops_source, columns.dram_bytes_source, columns.dtype, columns.peak):
        text[rows] = text[main]


def _numbers(values: list[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _from_sums(
    columns: Columns, kernels: pd.DataFrame, steps: pd.DataFrame, owners: Owners, mains: Ints, signed: Signed
) -> tuple[Ints, Ints]:
    """Complete attention from its step's sums, where the op recorded heads.

    Returns:
        The rows whose window was recorded, and those of MLA in both its forms.
    """
    windowed, two = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    asked = mains[np.isnan(columns.flops[mains])]
    sums = Sums.of(steps, kernels["step_id"].astype("float64").to_numpy()[asked])
    signature = owners.signature[asked]
    for row in np.unique(signature[sums.known]):
        work = signed.work[row]
        if work is None or (work.heads is None and work.absorbed is None):
            continue
        chosen = np.flatnonzero(signature == row)
        part = sums.where(signature == row)
        flops, dram_bytes, kv = attention_from_sums(work, part, signed.cache_item)
        told = ~np.isnan(flops)
        rows = asked[chosen[told]]
        columns.put(rows, flops[told], dram_bytes[told], WorkSource.ANNOTATION)
        columns.kv_bytes[rows] = kv[told]
        columns.weight_bytes[rows] = 0.0
        windowed += [rows] if work.heads is not None and work.heads.window is not None else []
        two += [asked[chosen[told & part.two_forms]]] if work.absorbed is not None else []
    return np.concatenate(windowed), np.concatenate(two)


def _transfers(columns: Columns, kernels: pd.DataFrame) -> None:
    """Copies and fills by their recorded bytes, on the device's side: device to device 2x, else 1x."""
    copied = where(kernels["kind"], lambda kind: kind == Kind.MEMCPY)
    moves = copied | where(kernels["kind"], lambda kind: kind == Kind.MEMSET)
    if not moves.any():
        return
    size = (
        kernels["bytes"].to_numpy(dtype=np.float64, na_value=np.nan)
        if "bytes" in kernels
        else np.full(len(kernels), np.nan)
    )
    twice = copied & matches(kernels["name"], DEVICE_COPY)
    columns.put(
        moves, np.zeros(int(moves.sum())), (size * np.where(twice, 2.0, 1.0))[moves], WorkSource.SHAPE
    )
    columns.weight_bytes[moves] = columns.kv_bytes[moves] = 0.0
    columns.dtype[moves] = columns.peak[moves] = None


def _named_bytes(columns: Columns, kernels: pd.DataFrame, mains: Ints, works: list[OpWork]) -> None:
    """Bytes of products of which sizes alone were recorded, where the kernel's name tells the type of its operands."""
    told = np.array([work.elements is not None for work in works], dtype=np.bool_)
    if not told.any():
        return
    rows = mains[told]
    elements = np.array([work.elements for work in works if work.elements is not None], dtype=np.float64)
    moved, weights = elements.T * operand_items(kernels)[rows]
    known = ~np.isnan(moved)
    rows = rows[known]
    columns.dram_bytes[rows], columns.weight_bytes[rows] = moved[known], weights[known]
    columns.kv_bytes[rows] = 0.0
    columns.dram_bytes_source[rows] = str(WorkSource.NAME)


def name_types(columns: Columns, kernels: pd.DataFrame) -> None:
    """Where a kernel's name carries a type, it decides the type of matrix math; int4 weights are widened first."""
    if "name_dtype" not in kernels:
        return
    named = kernels["name_dtype"].astype(object).to_numpy()
    said = ~pd.isna(named) & (named != "int4")
    matrix = pd.Series(columns.peak).isin(_MATRIX_PEAKS).to_numpy()
    # Operations without a type are those of a product whose sizes alone were recorded.
    untyped = pd.isna(columns.peak) & pd.isna(columns.dtype) & (columns.flops > 0)
    matrix = matrix | untyped
    unknown = pd.isna(columns.peak) & pd.isna(columns.dtype) & np.isnan(columns.flops)
    columns.peak[said & matrix] = named[said & matrix]
    columns.dtype[said & (matrix | unknown)] = named[said & (matrix | unknown)]
