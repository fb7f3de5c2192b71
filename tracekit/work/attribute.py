"""From op models to kernels: whose work a kernel does, and which kernel of an op does it."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.tables import Kind, WorkSource
from tracekit.tables.calls import DEVICE_COPY
from tracekit.tables.text import distinct, matches, where
from tracekit.work.filling import Columns
from tracekit.work.known import COLUMNS
from tracekit.work.operands import operand_items
from tracekit.work.owners import Owners, find_owners
from tracekit.work.registered import NOTHING, OpKind
from tracekit.work.signed import Signed, evaluate_signatures
from tracekit.work.sums import Sums, attention_from_sums
from tracekit.work.windows import forget_windowed

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

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
_KINDS = list(OpKind)
_AUXILIARY = ("aux", "combine", "meta", "reduce")
# Kinds whose math runs on matrix units, where the type in a kernel's name says more than the op's.
_MATRIX_PEAKS = frozenset({"fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4"})


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
    sources = _sources(columns, ops, owners, source)
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
    _named_bytes(columns, kernels, mains, signed, owners.signature[mains])
    kept = kernels.drop(columns=[name for name in COLUMNS if name in kernels])
    return forget_windowed(kept.assign(**columns.finished()), windowed)


def _sources(columns: Columns, ops: pd.DataFrame, owners: Owners, source: WorkSource) -> Ints:
    """Where the sizes of each kernel's op come from."""
    sources = np.full(len(owners.op), columns.numbers([source])[0])
    if "dims_source" in ops and len(ops):
        found, number = distinct(ops["dims_source"])
        borrowed = columns.numbers([*found[:-1], None])[number[owners.op]]
        sources = np.where((owners.op >= 0) & (borrowed >= 0), borrowed, sources)
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
    if "family" not in kernels or not len(rows):
        return np.zeros(len(rows), dtype=np.bool_)
    families, family = distinct(kernels["family"])
    codes, pairs = pd.factorize(family[rows] * len(_KINDS) + kinds)
    verdict = [_fits(families[pair // len(_KINDS)], _KINDS[pair % len(_KINDS)]) for pair in pairs.tolist()]
    return np.array(verdict, dtype=np.bool_)[codes]


def _fits(family: str, kind: OpKind) -> bool:
    wanted = _FITS.get(kind, ())
    return family.startswith(wanted) and not any(word in family for word in _AUXILIARY) if wanted else False


def _beside(kernels: pd.DataFrame, owners: Owners, signed: Signed) -> Bools:
    """Kernels of MLA's op that are no attention: products that it launches itself, of whose sizes nothing is known."""
    beside = np.zeros(len(kernels), dtype=np.bool_)
    rows = np.flatnonzero(owners.active & ~owners.cpu)
    kinds = signed.kind[owners.signature[rows]]
    latent = kinds == _KINDS.index(OpKind.LATENT)
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
    sources: Ints,
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


def _mains(columns: Columns, owners: Owners, mains: Ints, signed: Signed, sources: Ints) -> None:
    row = owners.signature[mains]
    flops, dram_bytes = _figures(signed, "flops")[row], _figures(signed, "dram_bytes")[row]
    columns.put(mains, flops, dram_bytes, sources[mains])
    known = ~np.isnan(dram_bytes)
    # MLA multiplies queries and results by the expansion of its latent, a head each.
    latent = np.where(owners.in_latent[mains], _figures(signed, "second_bytes")[row], 0.0)
    columns.weight_bytes[mains] = np.where(known, _figures(signed, "weight_bytes")[row] + latent, np.nan)
    columns.kv_bytes[mains] = np.where(known, _figures(signed, "kv_bytes")[row], np.nan)
    columns.expected_bytes[mains] = np.where(known, _figures(signed, "expected_bytes")[row], np.nan)
    columns.bus_bytes[mains] = _figures(signed, "bus_bytes")[row]
    columns.dtype[mains] = columns.numbers((work or NOTHING).dtype for work in signed.work)[row]
    columns.peak[mains] = columns.numbers((work or NOTHING).peak for work in signed.work)[row]


def _figures(signed: Signed, name: str) -> Floats:
    """A figure of the work of each signature; NaN where it is None."""
    return np.array([getattr(work or NOTHING, name) for work in signed.work], dtype=np.float64)


def _share_experts(
    columns: Columns, kernels: pd.DataFrame, owners: Owners, instances: Ints, mains: Ints, signed: Signed
) -> None:
    """A mixture of experts is several grouped products: its work is shared among them by their time."""
    rows = np.flatnonzero(owners.active)
    kinds = signed.kind[owners.signature[rows]]
    moe = kinds == _KINDS.index(OpKind.MOE)
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
    columns.dtype[moves] = columns.peak[moves] = -1


def _named_bytes(
    columns: Columns, kernels: pd.DataFrame, mains: Ints, signed: Signed, signature: Ints
) -> None:
    """Bytes of products of which sizes alone were recorded, where the kernel's name tells the type of its operands."""
    elements = np.array(
        [(np.nan, np.nan) if work is None or work.elements is None else work.elements for work in signed.work]
    ).reshape(-1, 2)[signature]
    if np.isnan(elements).all():
        return
    moved, weights = elements.T * operand_items(kernels)[mains]
    known = ~np.isnan(moved)
    rows = mains[known]
    columns.dram_bytes[rows], columns.weight_bytes[rows] = moved[known], weights[known]
    columns.kv_bytes[rows] = 0.0
    columns.dram_bytes_source[rows] = columns.numbers([WorkSource.NAME])[0]


def name_types(columns: Columns, kernels: pd.DataFrame) -> None:
    """Where a kernel's name carries a type, it decides the type of matrix math; int4 weights are widened first."""
    if "name_dtype" not in kernels:
        return
    found, number = distinct(kernels["name_dtype"])
    named = columns.numbers([*(None if text == "int4" else text for text in found[:-1]), None])[number]
    said = named >= 0
    # Operations without a type are those of a product whose sizes alone were recorded.
    untyped = (columns.peak < 0) & (columns.dtype < 0)
    matrix = said & (columns.are(columns.peak, _MATRIX_PEAKS) | (untyped & (columns.flops > 0)))
    unknown = said & untyped & np.isnan(columns.flops)
    columns.peak[matrix] = named[matrix]
    columns.dtype[matrix | unknown] = named[matrix | unknown]
