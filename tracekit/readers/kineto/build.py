"""What was gathered, as the tables of a capture."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.readers.kineto.columns import Pool, Spans
from tracekit.readers.kineto.gather import Gathered
from tracekit.tables import DEVICE_EVENTS, OPS, RANGES, RUNTIME_CALLS, SIGNATURES, Kind, Table


def thread_labels(gathered: Gathered) -> tuple[tuple[str, str], ...]:
    """(process, thread) labels, by thread index."""
    return tuple((str(process), str(thread)) for process, thread in gathered.threads.codes)


def device_events(gathered: Gathered, base_ns: int) -> pd.DataFrame:
    """DEVICE_EVENTS, in order of start."""
    frame = _in_order(gathered.device, base_ns, DEVICE_EVENTS)
    if len(frame):
        kinds = pd.Index([str(kind) for kind in Kind], dtype=object)
        frame["kind"] = pd.Categorical.from_codes(frame["kind"].to_numpy(), kinds)
    return DEVICE_EVENTS.conform(_with_grids(frame, gathered))


def runtime_calls(gathered: Gathered, base_ns: int) -> pd.DataFrame:
    """RUNTIME_CALLS, in order of start."""
    return RUNTIME_CALLS.conform(_with_grids(_in_order(gathered.runtime, base_ns, RUNTIME_CALLS), gathered))


def op_rows(gathered: Gathered, base_ns: int) -> pd.DataFrame:
    """OPS, in order of start."""
    return OPS.conform(_in_order(gathered.ops, base_ns, OPS))


def ranges(spans: Spans, base_ns: int) -> pd.DataFrame:
    """RANGES, in order of start."""
    return RANGES.conform(_in_order(spans, base_ns, RANGES))


def signatures(gathered: Gathered) -> pd.DataFrame:
    """SIGNATURES: the distinct ones, in order of first sight."""
    columns = list(zip(*gathered.signatures.codes, strict=True)) or [()] * 5
    data: dict[str, object] = {"op": pd.Categorical(pd.Index(columns[0], dtype=object))}
    for name, raws in zip(("dims", "types", "strides", "concrete"), columns[1:], strict=True):
        texts = pd.Index([raw.decode("utf-8", errors="replace") or None for raw in raws], dtype=object)
        data[name] = pd.Categorical(texts)
    return SIGNATURES.conform(pd.DataFrame(data))


def _with_grids(frame: pd.DataFrame, gathered: Gathered) -> pd.DataFrame:
    if len(frame):
        for name, pool in (("grid", gathered.grids), ("block", gathered.blocks)):
            frame[name] = _triples(frame[name].to_numpy(), pool)
    return frame


def _triples(codes: npt.NDArray[np.int32], pool: Pool[bytes]) -> pd.Categorical:
    """A text column from codes of triples as written, of which several may spell the same."""
    texts = [_triple_text(raw) for raw in pool.codes]
    distinct = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    again = np.array([distinct[text] for text in texts], np.int32)
    mapped = np.where(codes < 0, -1, again[np.maximum(codes, 0)]) if len(again) else codes
    return pd.Categorical.from_codes(mapped, pd.Index(list(distinct), dtype=object))


def _triple_text(raw: bytes) -> str:
    """`[64, 1, 1]` as `64,1,1`."""
    return raw.translate(None, b'[] \n\t\r"').decode("utf-8", errors="replace")


def _in_order(spans: Spans, base_ns: int, table: Table) -> pd.DataFrame:
    """The rows in order of start, those of one start in the order of the file; `base_ns` is added to every start."""
    if not len(spans.parts):
        return table.empty()
    starts = spans.parts.column("ts_ns")
    order = None if (starts[1:] >= starts[:-1]).all() else np.argsort(starts, kind="stable")
    columns = {
        name: spans.parts.column(name) if order is None else spans.parts.column(name)[order]
        for name in spans.parts.pieces
    }
    names = pd.Index(list(spans.names.codes), dtype=object)
    data: dict[str, object] = {}
    for name, column in columns.items():
        if name == "name":
            data[name] = pd.Categorical.from_codes(column, names)
        elif f"{name}!" in columns:
            missing = columns[f"{name}!"]
            kind = np.int32 if name == "device" else np.int64
            data[name] = pd.arrays.IntegerArray(np.where(missing, 0, column).astype(kind), missing)
        elif not name.endswith("!"):
            data[name] = column + base_ns if name == "ts_ns" else column
    return pd.DataFrame(data)
