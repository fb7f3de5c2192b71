"""Processes, threads and devices of an export, and correlation ids that are its own for each process."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tracekit.readers.arrow import Bools, Codes, Ints, lookup, missing, values
from tracekit.readers.database import Database, read_columns
from tracekit.readers.nsys.schema import CUDA_DEVICES, GPUS, find
from tracekit.tables import DeviceProperties

# A serialised id holds hardware, machine, process and thread: the low 24 bits are the thread, the next the process.
_SHIFT = 24
_LOW = (1 << _SHIFT) - 1
# Correlation ids are 32 bits wide.
_CORRELATIONS = 1 << 32


@dataclass(slots=True)
class Processes:
    """The processes and threads of one file.

    Attributes:
        codes: Processes, in order of first sight: the first keeps its correlation ids as written.
        threads: Host threads by their serialised id.
        devices: Device by (process id, CUDA device of that process).
    """

    codes: Codes[int] = field(default_factory=Codes)
    threads: Codes[int] = field(default_factory=Codes)
    devices: dict[tuple[int, int], int] = field(default_factory=dict)

    def correlations(self, table: pa.Table, owner: str) -> tuple[Ints, Bools]:
        """Correlation ids that name a launch in the whole file, and where there is none.

        Processes count from the same numbers, so that an id alone would join kernels to launches of another.
        """
        own = values(table, "correlationId")
        null = missing(table, "correlationId") | missing(table, owner) | (own <= 0) | (own >= _CORRELATIONS)
        distinct, inverse = np.unique(values(table, owner) >> _SHIFT, return_inverse=True)
        process = self.codes.of(distinct.tolist())
        return own + (process * _CORRELATIONS)[inverse] if len(distinct) else own, null

    def thread_numbers(self, table: pa.Table, name: str = "globalTid") -> Ints:
        """Index of each row's thread; rows without one share an unnamed thread."""
        distinct, inverse = np.unique(values(table, name, -1), return_inverse=True)
        return self.threads.of(distinct.tolist())[inverse] if len(distinct) else inverse

    def labels(self) -> tuple[tuple[str, str], ...]:
        """(process, thread) labels by thread index."""
        return tuple(
            (str(thread >> _SHIFT & _LOW), str(thread & _LOW)) if thread >= 0 else ("", "")
            for thread in self.threads.codes
        )

    def device_numbers(self, table: pa.Table) -> Ints:
        """The GPU of each row: a process that sees some GPUs alone numbers them from zero."""
        device = values(table, "deviceId")
        if not self.devices:
            return device
        process = values(table, "globalPid") >> _SHIFT & _LOW
        known = {pid * _CORRELATIONS + cuda: gpu for (pid, cuda), gpu in self.devices.items()}
        return lookup(known, process * _CORRELATIONS + device, lambda key: key % _CORRELATIONS)


def device_numbers(database: Database) -> dict[tuple[int, int], int]:
    """The GPU that each process calls its n-th, where the file says."""
    rows = read_columns(database, find(database, CUDA_DEVICES), ("gpuId", "cudaId", "pid")).to_pylist()
    return {
        (row["pid"], row["cudaId"]): row["gpuId"]
        for row in rows
        if None not in row.values() and min(row.values()) >= 0 and max(row.values()) < _CORRELATIONS
    }


def gpus(database: Database) -> tuple[DeviceProperties, ...]:
    """The GPUs that the file lists."""
    numbers = (
        "id", "smCount", "computeMajor", "computeMinor", "totalMemory", "memoryBandwidth", "l2CacheSize",
    )  # fmt: skip
    rows = read_columns(database, find(database, GPUS), numbers, ("name",)).to_pylist()
    return tuple(
        DeviceProperties(
            index=row["id"] if row["id"] is not None else position,
            name=(row["name"] or "").strip() or None,
            compute_major=row["computeMajor"],
            compute_minor=row["computeMinor"],
            sm_count=row["smCount"],
            memory_bytes=row["totalMemory"],
            memory_bytes_per_s=_positive(row["memoryBandwidth"]),
            l2_bytes=_positive(row["l2CacheSize"]),
        )
        for position, row in enumerate(rows)
    )


def _positive(number: int | None) -> int | None:
    """A number above 0; a recorder without the figure writes 0."""
    return number if number is not None and number > 0 else None
