"""NVTX ranges of an export: annotations of engines and users, and the ops of `torch.autograd.profiler.emit_nvtx`."""

import re
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.readers.arrow import Codes, Ints, Kept, in_order, missing, text_column, values
from tracekit.readers.database import Database, read_columns
from tracekit.readers.nsys.processes import Processes
from tracekit.readers.nsys.schema import RANGES, find
from tracekit.readers.nsys.strings import Strings
from tracekit.tables import OPS, SIGNATURES, QualityNote
from tracekit.tables import RANGES as RANGE_TABLE

# ENUM_NSYS_EVENT_TYPE: push/pop and start/end ranges, of NVTX and of imported NVTXT.
_PUSH_POP = (59, 70)
_START_END = (60, 71)
_COLUMNS = ("start", "end", "eventType", "globalTid", "endGlobalTid", "textId")
# What emit_nvtx writes behind an op's name.
_SUFFIX = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = ")
_SIZES = ", sizes = "
_INPUTS = ", input_op_ids = "
_OP = re.compile(r"^\w+::|^\w+Backward\d*$|^detach_?$|^autograd::engine::")


@dataclass(slots=True)
class Annotations:
    """The ranges, sorted into annotations and ops as they are read.

    Attributes:
        rows: Ranges read, of every kind.
        open: Ranges that the recording ended in.
        crossing: Start/end ranges that end on another thread than they began on.
        nameless: Ranges without a text.
    """

    rows: int = 0
    open: int = 0
    crossing: int = 0
    nameless: int = 0
    _kept: Kept = field(default_factory=Kept)
    _names: Codes[str] = field(default_factory=Codes)
    _signatures: Codes[tuple[str, str | None]] = field(default_factory=Codes)
    _parts: dict[str, list[pd.DataFrame]] = field(default_factory=lambda: {"annotation": [], "op": []})

    def add(self, batch: pa.Table, strings: Strings, processes: Processes) -> None:
        """Sort one batch of NVTX_EVENTS."""
        table = self._ranges(batch)
        texts = self._texts(table, strings)
        start = values(table, "start")
        frame = pd.DataFrame(
            {
                "ts_ns": start,
                "dur_ns": values(table, "end") - start,
                "thread": processes.thread_numbers(table),
            }
        )
        codes, is_op = self._sort(texts)
        named = codes >= 0
        self.nameless += int((~named).sum())
        self._parts["annotation"].append(frame[named & ~is_op].assign(code=codes[named & ~is_op]))
        self._parts["op"].append(frame[named & is_op].assign(code=codes[named & is_op]))

    def _ranges(self, batch: pa.Table) -> pa.Table:
        kind = values(batch, "eventType")
        batch = batch.filter(pa.array(np.isin(kind, (*_PUSH_POP, *_START_END))))
        self.rows += len(batch)
        unended = missing(batch, "end")
        self.open += int(unended.sum())
        batch = self._kept.times(batch.filter(pa.array(~unended)), "NVTX ranges")
        ended_by = values(batch, "endGlobalTid")
        elsewhere = (ended_by != values(batch, "globalTid")) & (ended_by > 0)
        self.crossing += int((elsewhere & np.isin(values(batch, "eventType"), _START_END)).sum())
        return batch

    def _texts(self, table: pa.Table, strings: Strings) -> pa.ChunkedArray:
        """The text of each row, in the row itself or by number."""
        by_number = pa.array(strings.of(values(table, "textId", -1)), pa.string())
        return pc.coalesce(table.column("text"), by_number)

    def _sort(self, texts: pa.ChunkedArray) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """A code for each row, and whether it is a row of the ops' codes or of the annotations'."""
        coded = pc.dictionary_encode(texts).combine_chunks()
        place = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
        codes = np.full(len(coded.dictionary) + 1, -1, np.int64)
        is_op = np.zeros(len(codes), np.bool_)
        for number, text in enumerate(coded.dictionary.to_pylist()):
            name, sizes = split(text)
            if name and _OP.search(name):
                is_op[number] = True
                codes[number] = self._signatures.one((name, sizes))
            elif name:
                codes[number] = self._names.one(name)
        return codes[place], is_op[place]

    def annotations(self) -> pd.DataFrame:
        """RANGES, in order of start."""
        names = list(self._names.codes)
        parts = [
            part.assign(name=text_column(part["code"].to_numpy(), names))
            for part in self._parts["annotation"]
        ]
        return in_order(RANGE_TABLE, parts)

    def ops(self) -> pd.DataFrame:
        """OPS, in order of start."""
        names = [name for name, _ in self._signatures.codes]
        parts = [
            part.assign(name=text_column(part["code"].to_numpy(), names), signature=part["code"])
            for part in self._parts["op"]
        ]
        return in_order(OPS, parts)

    def signatures(self) -> pd.DataFrame:
        """SIGNATURES: the distinct ones, in order of first sight."""
        pairs = list(self._signatures.codes)
        rows = np.arange(len(pairs), dtype=np.int64)
        return SIGNATURES.conform(
            pd.DataFrame(
                {
                    "op": text_column(rows, [name for name, _ in pairs]),
                    "dims": text_column(rows, [sizes for _, sizes in pairs]),
                }
            )
        )

    def notes(self) -> list[QualityNote]:
        """What was left out or is uncertain."""
        found = self._kept.notes()
        if self.open:
            found.append(QualityNote("open_ranges", self.open, "NVTX ranges that never ended were left out"))
        if self.crossing:
            found.append(
                QualityNote(
                    "crossing_ranges",
                    self.crossing,
                    "NVTX ranges end on another thread than they began on; they count for the thread of their start",
                )
            )
        if self.nameless:
            found.append(
                QualityNote("nameless_ranges", self.nameless, "NVTX ranges without a text were left out")
            )
        return found


def split(text: str) -> tuple[str, str | None]:
    """A range's text as name and recorded sizes: `aten::mm, op_id = 4, sizes = [[2, 3], [3, 4]]`."""
    first = _SUFFIX.search(text)
    if first is None:
        return text.strip(), None
    _, found, sizes = text.partition(_SIZES)
    return text[: first.start()].strip(), sizes.partition(_INPUTS)[0].strip() if found else None


def read_nvtx(database: Database, strings: Strings, processes: Processes) -> Annotations:
    """Read the ranges; `strings` must hold the texts that `want_texts` asked for.

    Raises:
        CaptureError: The file is damaged.
    """
    found = Annotations()
    table = find(database, RANGES)
    if table in database.tables:
        for batch in database.batches(table, _COLUMNS, ("text",)):
            found.add(pa.Table.from_batches([batch]), strings, processes)
    return found


def want_texts(database: Database, strings: Strings) -> None:
    """Ask for the texts that ranges name by number."""
    strings.want(read_columns(database, find(database, RANGES), ("textId",)), "textId")


__all__ = ["Annotations", "read_nvtx", "split", "want_texts"]
