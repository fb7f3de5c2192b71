"""Tables of a ROCm capture, growing batch by batch, whichever file they come from."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.readers.arrow import (
    Bools,
    Codes,
    Ints,
    Kept,
    in_order,
    missing,
    nullable,
    small,
    text_column,
    triple_texts,
    values,
)
from tracekit.tables import DEVICE_EVENTS, RANGES, RUNTIME_CALLS, Kind, QualityNote

NO_KERNEL_NAME = "[kernel without a name in the file]"
NO_CALL_NAME = "[call without a name in the file]"
# Correlation ids count from one in each process; no process makes as many calls as this.
_CORRELATIONS = 1 << 40
_DIRECTIONS = {
    "HOST_TO_DEVICE": "Memcpy HtoD (Host -> Device)",
    "DEVICE_TO_HOST": "Memcpy DtoH (Device -> Host)",
    "DEVICE_TO_DEVICE": "Memcpy DtoD (Device -> Device)",
    "HOST_TO_HOST": "Memcpy HtoH (Host -> Host)",
}
Triple = tuple[int, int, int]


@dataclass(slots=True)
class Frames:
    """Device events, calls and ranges so far.

    A batch comes as a table of `start`, `end` (ns), `thread`, `correlation`, `process` (its number in the file) and
    `pid`, with columns beside it in the same order.

    Attributes:
        nameless: Ranges without a text.
    """

    kept: Kept = field(default_factory=Kept)
    nameless: int = 0
    _threads: Codes[tuple[int, int, int]] = field(default_factory=Codes)
    _device: list[pd.DataFrame] = field(default_factory=list)
    _calls: list[pd.DataFrame] = field(default_factory=list)
    _ranges: list[pd.DataFrame] = field(default_factory=list)

    def kernels(
        self,
        times: pa.Table,
        names: Sequence[str | None],
        device: Sequence[int | None],
        stream: Sequence[int | None],
        items: Sequence[Triple],
        group: Sequence[Triple],
    ) -> None:
        """Add dispatches; `items` are work items in each direction, `group` those of a work group."""
        good, keep = self._usable(times, "device events")
        frame = self._placed(good, device, stream, keep)
        frame["kind"] = pd.Categorical([str(Kind.KERNEL)] * len(frame))
        frame["name"] = _named(_kept(names, keep), NO_KERNEL_NAME)
        block = np.array(group, np.int64).reshape(-1, 3)[keep]
        absent = blank(block)
        frame["grid"] = triple_texts(groups(np.array(items, np.int64).reshape(-1, 3)[keep], block), absent)
        frame["block"] = triple_texts(block, absent)
        self._device.append(frame)

    def copies(
        self,
        times: pa.Table,
        names: Sequence[str | None],
        device: Sequence[int | None],
        stream: Sequence[int | None],
        size: pa.Array,
    ) -> None:
        """Add copies; `names` say the direction, `size` is in bytes."""
        good, keep = self._usable(times, "device events")
        frame = self._placed(good, device, stream, keep)
        frame["kind"] = pd.Categorical([str(Kind.MEMCPY)] * len(frame))
        frame["name"] = _named([copy_name(name) for name in _kept(names, keep)], "Memcpy")
        sizes = pa.table({"size": size}).filter(pa.array(keep))
        frame["bytes"] = nullable(values(sizes, "size"), missing(sizes, "size") | (values(sizes, "size") < 0))
        self._device.append(frame)

    def calls(self, times: pa.Table, names: Sequence[str | None]) -> None:
        """Add host calls."""
        good, keep = self._usable(times, "runtime calls")
        frame = self._timed(good).assign(
            name=_named(_kept(names, keep), NO_CALL_NAME),
            thread=self._thread(good),
            correlation=nullable(*_correlation(good)),
        )
        self._calls.append(frame)

    def ranges(self, times: pa.Table, names: Sequence[str | None]) -> None:
        """Add annotations; those without a text are counted only."""
        good, keep = self._usable(times, "annotations")
        texts = _kept(names, keep)
        told = np.array([bool(text) for text in texts], np.bool_)
        self.nameless += int((~told).sum())
        frame = self._timed(good).assign(name=_named(texts, ""), thread=self._thread(good))
        self._ranges.append(frame[told])

    def _usable(self, times: pa.Table, what: str) -> tuple[pa.Table, Bools]:
        numbered = times.append_column("row", pa.array(np.arange(len(times), dtype=np.int64)))
        good = self.kept.times(numbered, what)
        keep = np.zeros(len(times), np.bool_)
        keep[values(good, "row")] = True
        return good, keep

    def _timed(self, times: pa.Table) -> pd.DataFrame:
        start = values(times, "start")
        return pd.DataFrame({"ts_ns": start, "dur_ns": values(times, "end") - start})

    def _placed(
        self, times: pa.Table, device: Sequence[int | None], stream: Sequence[int | None], keep: Bools
    ) -> pd.DataFrame:
        places = pa.table({"device": pa.array(device, pa.int64()), "stream": pa.array(stream, pa.int64())})
        places = places.filter(pa.array(keep))
        return self._timed(times).assign(
            device=small(values(places, "device"), missing(places, "device")),
            stream=nullable(values(places, "stream"), missing(places, "stream")),
            correlation=nullable(*_correlation(times)),
        )

    def _thread(self, times: pa.Table) -> Ints:
        labels = zip(
            *(values(times, name, -1).tolist() for name in ("process", "pid", "thread")), strict=True
        )
        return self._threads.of(labels)

    def device_events(self) -> pd.DataFrame:
        """DEVICE_EVENTS, in order of start."""
        return in_order(DEVICE_EVENTS, self._device)

    def runtime_calls(self) -> pd.DataFrame:
        """RUNTIME_CALLS, in order of start."""
        return in_order(RUNTIME_CALLS, self._calls)

    def annotations(self) -> pd.DataFrame:
        """RANGES, in order of start."""
        return in_order(RANGES, self._ranges)

    @property
    def threads(self) -> tuple[tuple[str, str], ...]:
        """(process, thread) labels by thread index."""
        return tuple(
            ("" if pid < 0 else str(pid), "" if thread < 0 else str(thread))
            for _, pid, thread in self._threads.codes
        )

    def notes(self) -> list[QualityNote]:
        """What was left out."""
        found = self.kept.notes()
        if self.nameless:
            found.append(QualityNote("nameless_ranges", self.nameless, "ranges without a text were left out"))
        return found


def groups(items: Ints, group: Ints) -> Ints:
    """Work groups in each direction: ROCm counts a grid in work items, CUDA in blocks."""
    whole: Ints = -(-items // np.maximum(group, 1))
    return whole


def blank(group: Ints) -> Bools:
    """Where a work group has no extent, so that no grid can be told."""
    return np.asarray((group <= 0).any(axis=1), np.bool_)


def copy_name(operation: str | None) -> str:
    """A copy in the words that Kineto uses: `MEMORY_COPY_HOST_TO_DEVICE` is `Memcpy HtoD …`."""
    text = (operation or "").upper()
    return next((name for direction, name in _DIRECTIONS.items() if text.endswith(direction)), "Memcpy")


def _correlation(times: pa.Table) -> tuple[Ints, Bools]:
    own = values(times, "correlation")
    null = missing(times, "correlation") | (own <= 0) | (own >= _CORRELATIONS)
    return own + values(times, "process") * _CORRELATIONS, null


def _kept(texts: Sequence[str | None], keep: Bools) -> list[str | None]:
    return [text for text, good in zip(texts, keep.tolist(), strict=True) if good]


def _named(texts: Sequence[str | None], otherwise: str) -> pd.Categorical:
    coded = pc.dictionary_encode(pa.array([text or otherwise for text in texts], pa.string()))
    return text_column(coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist())
