"""A builder of small Kineto traces: times in microseconds, as the format has them."""

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

A100 = {
    "id": 0,
    "name": "NVIDIA A100-SXM4-80GB",
    "totalGlobalMem": 85_000_000_000,
    "computeMajor": 8,
    "computeMinor": 0,
    "numSms": 108,
}
HOST_PID = 100
MAIN_THREAD = 1


@dataclass
class TraceBuilder:
    """Events in the order they are added; `document` is the whole trace.

    Attributes:
        devices: `deviceProperties`; none for a trace of a host alone.
        base_ns: `baseTimeNanoseconds`, left out where None.
        options: Further top-level fields, before the events.
        tail: Further top-level fields, after the events.
    """

    devices: list[dict[str, Any]] = field(default_factory=lambda: [A100])
    base_ns: int | None = 1_000_000_000
    options: dict[str, Any] = field(default_factory=dict)
    tail: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    _correlation: int = 0

    def event(
        self,
        cat: str,
        name: str,
        ts: float,
        dur: float,
        *,
        pid: int | str = HOST_PID,
        tid: int | str = MAIN_THREAD,
        **args: Any,
    ) -> "TraceBuilder":
        """Any complete event."""
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
        )
        return self

    def annotation(self, name: str, ts: float, dur: float, tid: int = MAIN_THREAD) -> "TraceBuilder":
        """A `record_function` range."""
        return self.event("user_annotation", name, ts, dur, tid=tid)

    def frame(self, name: str, ts: float, dur: float, tid: int = MAIN_THREAD) -> "TraceBuilder":
        """A Python frame."""
        return self.event("python_function", name, ts, dur, tid=tid)

    def op(
        self,
        name: str,
        ts: float,
        dur: float,
        *,
        tid: int = MAIN_THREAD,
        dims: Any = None,
        types: Any = None,
        strides: Any = None,
        concrete: Any = None,
    ) -> "TraceBuilder":
        """A framework op with what record_shapes adds to it."""
        recorded = {
            "Input Dims": dims,
            "Input type": types,
            "Input Strides": strides,
            "Concrete Inputs": concrete,
        }
        return self.event(
            "cpu_op",
            name,
            ts,
            dur,
            tid=tid,
            **{key: value for key, value in recorded.items() if value is not None},
        )

    def launch(
        self, ts: float, dur: float = 2, name: str = "cudaLaunchKernel", tid: int = MAIN_THREAD
    ) -> int:
        """A runtime call; returns its correlation id."""
        self._correlation += 1
        self.event("cuda_runtime", name, ts, dur, tid=tid, correlation=self._correlation)
        return self._correlation

    def kernel(
        self,
        name: str,
        ts: float,
        dur: float,
        correlation: int | None = None,
        *,
        stream: int = 7,
        device: int = 0,
        cat: str = "kernel",
        **args: Any,
    ) -> "TraceBuilder":
        """A row of device work."""
        linked = {} if correlation is None else {"correlation": correlation}
        return self.event(
            cat, name, ts, dur, pid=device, tid=stream, device=device, stream=stream, **linked, **args
        )

    def launched(
        self, name: str, launch_ts: float, ts: float, dur: float, *, tid: int = MAIN_THREAD, **args: Any
    ) -> "TraceBuilder":
        """A kernel with its launch."""
        return self.kernel(name, ts, dur, self.launch(launch_ts, tid=tid), **args)

    def document(self) -> dict[str, Any]:
        """The trace as one object, metadata first."""
        base = {} if self.base_ns is None else {"baseTimeNanoseconds": self.base_ns}
        return {
            "schemaVersion": 1,
            "deviceProperties": self.devices,
            **self.options,
            **base,
            "traceEvents": self.events,
            **self.tail,
        }

    def text(self, indent: int | None = None) -> bytes:
        """The trace as JSON."""
        return json.dumps(self.document(), indent=indent).encode()

    def write(self, path: Path, *, indent: int | None = None) -> str:
        """Write the trace, gzipped where the name ends in .gz; returns the path."""
        data = self.text(indent)
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return str(path)
