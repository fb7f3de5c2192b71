"""The capture folder: its file names, its manifest, its measured ceilings."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from tracekit.errors import FormatError
from tracekit.formats.document import SCHEMA_VERSION, build, checked, read_json, write_json

RUN = "run.json"
INDEX = "index.json"
ENGINE = "engine.json"
CEILINGS = "ceilings.json"
TIMING_TRACE = "timing.trace.json.gz"
SHAPES_TRACE = "shapes.trace.json.gz"
DONOR_TRACE = "donor.trace.json.gz"
COUNTERS_CSV = "counters.csv"
COUNTERS_REPORT = "counters.ncu-rep"


@dataclass(frozen=True, slots=True)
class Workload:
    """What one capture ran; see `CollectRequest` for the meaning of the shared fields."""

    model: str
    dtype: str
    kv_dtype: str
    phases: tuple[str, ...]
    batch: int
    prompt_len: int
    kv_len: int
    decode_steps: int
    warmup: int
    repeats: int
    seed: int
    device: str
    attention: str
    tensor_parallel: int = 1
    backend: str = "decoder"
    compile: bool = False
    cuda_graphs: bool = False


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast one phase ran without a profiler, and how much the profiler slows it down.

    Attributes:
        test: In the words of llama-bench: `pp512` (prefill), `tg32@d1000` (decode at depth 1000).
        phase: The phase.
        batch: Requests of a step.
        step_ns: Median time of a step [ns].
        spread_ns: Median absolute deviation of it over the repeats [ns].
        tokens_per_s: Scheduled tokens per second over the median repeat.
        timing_overhead: Time under the timing pass over time without a profiler, minus 1.
    """

    test: str
    phase: str
    batch: int
    step_ns: float
    spread_ns: float
    tokens_per_s: float
    timing_overhead: float | None = None


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file of the folder.

    Attributes:
        name: Its name.
        made_by: The pass that made it: timing, shapes, donor, ceilings, counters.
        steps: Steps that it should hold.
        partial: What the profiler did not keep of them, also when asked again; None where it kept all.
    """

    name: str
    made_by: str
    steps: int | None = None
    partial: str | None = None


@dataclass(frozen=True, slots=True)
class RunManifest:
    """`run.json`: everything needed to know what a capture is, and to collect it again.

    Attributes:
        workload: What ran.
        model: The model's dimensions, as `tracekit.models` names them.
        parameters: Parameters of the model that ran.
        weight_bytes: Bytes of its weights.
        kv_bytes_per_token: Bytes of the KV cache a token.
        device: Kind, name, cores or SMs, cache and memory sizes.
        versions: Of Python, PyTorch and tracekit.
        command: The command that collects it again, its output folder left out.
        files: Files of the folder.
        rates: Speeds without a profiler.
        notes: What the reader of the figures must know.
    """

    workload: Workload
    model: Mapping[str, Any]
    parameters: int
    weight_bytes: int
    kv_bytes_per_token: int
    device: Mapping[str, Any]
    versions: Mapping[str, str]
    command: str
    files: tuple[FileRecord, ...] = ()
    rates: tuple[Rate, ...] = ()
    notes: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def write(self, folder: Path) -> Path:
        """Write `run.json`, whole or not at all."""
        return write_json(folder / RUN, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read `run.json` of a capture folder.

        Raises:
            CaptureError: It is missing or unreadable.
            FormatError: It is not a manifest, or of a newer schema.
        """
        path = folder / RUN
        document = checked(path, read_json(path))
        workload = build(path, Workload, document.pop("workload", None))
        records = tuple(build(path, FileRecord, item) for item in document.pop("files", ()))
        rates = tuple(build(path, Rate, item) for item in document.pop("rates", ()))
        return build(path, cls, {**document, "workload": workload, "files": records, "rates": rates})


@dataclass(frozen=True, slots=True)
class MeasuredCeilings:
    """`ceilings.json`: what microbenchmarks reached on the device; the best of all repeats.

    Attributes:
        device: Kind, name, cores or SMs, cache and memory sizes.
        peaks: By dtype word: `flops_per_s`, `shape` [M, N, K] of the product that reached it, and `by_shape`.
        dram: `copy_bytes_per_s` (bytes read and written), `read_bytes_per_s`, `buffer_bytes`.
        launch_overhead_ns: Time from one small op to the next [ns].
        method: How all of it was measured, for the report.
        host_link: `host_to_device_bytes_per_s`, `device_to_host_bytes_per_s` (pinned); empty on a CPU.
        peer_link: `all_reduce_bus_bytes_per_s` between the machine's ranks; empty with one.
    """

    device: Mapping[str, Any]
    peaks: Mapping[str, Mapping[str, Any]]
    dram: Mapping[str, float]
    launch_overhead_ns: float
    method: str
    host_link: Mapping[str, float] = field(default_factory=dict)
    peer_link: Mapping[str, float] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def flops_per_s(self) -> dict[str, float]:
        """The largest rate by dtype word [FLOP/s]."""
        return {word: float(peak["flops_per_s"]) for word, peak in self.peaks.items()}

    def dram_bytes_per_s(self) -> float:
        """The larger of the copy and the read rate [byte/s]."""
        return max(self.dram["copy_bytes_per_s"], self.dram["read_bytes_per_s"])

    def write(self, folder: Path) -> Path:
        """Write `ceilings.json`, whole or not at all."""
        return write_json(folder / CEILINGS, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a `ceilings.json`, or that of a capture folder.

        Raises:
            CaptureError: It is missing or unreadable.
            FormatError: It does not hold measured ceilings, or is of a newer schema.
        """
        file = path / CEILINGS if path.is_dir() else path
        found = build(file, cls, checked(file, read_json(file)))
        rates = [*(peak.get("flops_per_s") for peak in found.peaks.values()), *found.dram.values()]
        missing = {"copy_bytes_per_s", "read_bytes_per_s"} - found.dram.keys()
        if missing or not all(_is_positive(rate) for rate in [*rates, found.launch_overhead_ns]):
            reason = "a rate is missing or not a positive number"
            raise FormatError(str(file), reason, hint="measure again with `tracekit collect`")
        return found


def _is_positive(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 < value < float("inf")
