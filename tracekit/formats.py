"""The capture folder: its file names, its manifest, its measured ceilings, and the text of a step annotation.

Standard library only: the collectors import this inside an engine's own environment. Host names, user names
and paths of the machine are never part of any of these files.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from tracekit.errors import CaptureError, FormatError

T = TypeVar("T")

SCHEMA_VERSION = 1

RUN = "run.json"
INDEX = "index.json"
ENGINE = "engine.json"
CEILINGS = "ceilings.json"
TIMING_TRACE = "timing.trace.json.gz"
SHAPES_TRACE = "shapes.trace.json.gz"
DONOR_TRACE = "donor.trace.json.gz"
COUNTERS_CSV = "counters.csv"
COUNTERS_REPORT = "counters.ncu-rep"

PHASES = ("prefill", "decode", "mixed")
DTYPES = ("fp64", "fp32", "bf16", "fp16")
KV_DTYPES = (*DTYPES, "fp8")
ATTENTION = ("sdpa", "flash", "flex", "eager")
BACKENDS = ("decoder", "transformers")


@dataclass(frozen=True, slots=True)
class RequestSums:
    """One side of a step annotation: all requests in prefill, or all in decode.

    Attributes:
        requests: Number of requests.
        sq: Sum of their scheduled tokens (queries).
        sk: Sum of their key lengths, the scheduled tokens included.
        sqsq: Sum of the squared query lengths.
        sqsk: Sum of query length times key length.
    """

    requests: int = 0
    sq: int = 0
    sk: int = 0
    sqsq: int = 0
    sqsk: int = 0

    @classmethod
    def of(cls, lengths: Iterable[tuple[int, int]]) -> Self:
        """The sums over requests given as (query length, key length)."""
        pairs = tuple(lengths)
        return cls(
            requests=len(pairs),
            sq=sum(q for q, _ in pairs),
            sk=sum(k for _, k in pairs),
            sqsq=sum(q * q for q, _ in pairs),
            sqsk=sum(q * k for q, k in pairs),
        )

    def text(self) -> str:
        """This side as the annotation writes it: `1(sq512sk512sqsq262144sqsk262144)`."""
        return f"{self.requests}(sq{self.sq}sk{self.sk}sqsq{self.sqsq}sqsk{self.sqsk})"


def step_annotation(context: RequestSums, generation: RequestSums) -> str:
    """The text around one step: plain printable ASCII without quotes, as torch's exporter needs it.

    The form is vLLM's detailed step annotation: total scheduled tokens, then requests and sums for prefill
    ("context") and for decode ("generation").
    """
    total = context.sq + generation.sq
    return f"execute_{total}_context_{context.text()}_generation_{generation.text()}"


@dataclass(frozen=True, slots=True)
class CollectRequest:
    """What `tracekit collect` asks the collector for; tuples of several values make a sweep.

    Attributes:
        output: Folder to write.
        models: Preset names, or paths of Hugging Face `config.json` files or folders; None is the default of the device.
        layers: Keep so many layers; None keeps all.
        dtypes: Types of weights and activations; None is the default of the device.
        kv_dtype: Type of the KV cache; None is that of the weights.
        phases: Phases to run, in one capture.
        batches: Requests of a step.
        prompt_lens: Tokens of a prompt.
        kv_lens: Tokens in the KV cache before the first decode step.
        decode_steps: Decode steps of a repeat.
        warmup: Steps of each phase before anything is timed.
        repeats: Repeats of each phase.
        seed: Seed of weights, tokens and cache content.
        device: cpu or cuda; None takes a GPU where there is one.
        attention: sdpa, flash, flex or eager.
        backend: decoder (tracekit's own) or transformers (Hugging Face's classes).
        compile: Compile the model with torch.compile.
        cuda_graphs: Replay decode steps as CUDA graphs.
        tensor_parallel: Run the shard of one rank of so many.
        threads: CPU threads; None takes every core that the process may use.
        counters: Set of hardware counters to collect in runs of their own; None for none.
    """

    output: Path
    models: tuple[str | None, ...] = (None,)
    layers: int | None = None
    dtypes: tuple[str | None, ...] = (None,)
    kv_dtype: str | None = None
    phases: tuple[str, ...] = ("prefill", "decode")
    batches: tuple[int, ...] = (1,)
    prompt_lens: tuple[int, ...] = (512,)
    kv_lens: tuple[int, ...] = (1000,)
    decode_steps: int = 32
    warmup: int = 2
    repeats: int = 3
    seed: int = 0
    device: str | None = None
    attention: str = "sdpa"
    backend: str = "decoder"
    compile: bool = False
    cuda_graphs: bool = False
    tensor_parallel: int = 1
    threads: int | None = None
    counters: str | None = None


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """What `tracekit collect --engine` asks of a running server.

    Attributes:
        engine: Which engine serves.
        url: Where: the only place that requests go to.
        output: Folder to write.
        trace_dir: The folder that the server writes its traces to, where this machine sees it.
        model: The name it serves; None takes the first that it lists.
        phases: Loads to send: of prompts, of decode, of both at once.
        batch: Requests at once.
        prompt_len: Tokens of a prompt of the prefill load.
        kv_len: Tokens of a prompt of the decode load: what each decode step stands behind.
        decode_steps: Decode steps to record at least.
        warmup: Rounds of requests before the profile starts.
        repeats: Rounds of the prefill load.
        seed: Seed of the prompts.
        api_key: Sent as a bearer token; never written.
        timeout_s: Longest wait for an answer, and for files to be complete [s].
        stop_timeout_s: Longest wait for the server to stop its profile [s].
    """

    engine: str
    url: str
    output: Path
    trace_dir: Path | None = None
    model: str | None = None
    phases: tuple[str, ...] = ("prefill", "decode")
    batch: int = 1
    prompt_len: int = 512
    kv_len: int = 1000
    decode_steps: int = 32
    warmup: int = 2
    repeats: int = 3
    seed: int = 0
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 120.0
    stop_timeout_s: float = 900.0


class Progress(Protocol):
    """Where a collector says how far it is; the command line draws it."""

    def begin(self, task: str, total: int) -> None:
        """A task of so many parts starts; the one before has ended."""

    def advance(self) -> None:
        """One part is done."""

    def note(self, text: str) -> None:
        """Something that the user should know, in one line."""


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
        document = _checked(path, read_json(path))
        workload = _build(path, Workload, document.pop("workload", None))
        records = tuple(_build(path, FileRecord, item) for item in document.pop("files", ()))
        rates = tuple(_build(path, Rate, item) for item in document.pop("rates", ()))
        return _build(path, cls, {**document, "workload": workload, "files": records, "rates": rates})


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
        found = _build(file, cls, _checked(file, read_json(file)))
        rates = [*(peak.get("flops_per_s") for peak in found.peaks.values()), *found.dram.values()]
        missing = {"copy_bytes_per_s", "read_bytes_per_s"} - found.dram.keys()
        if missing or not all(_is_positive(rate) for rate in [*rates, found.launch_overhead_ns]):
            reason = "a rate is missing or not a positive number"
            raise FormatError(str(file), reason, hint="measure again with `tracekit collect`")
        return found


def _is_positive(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 < value < float("inf")


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        CaptureError: The file is missing or unreadable.
        FormatError: It holds no JSON object.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        hint = "collect it again; the collection may not have finished"
        raise CaptureError(str(path), "no such file", hint=hint, code="missing") from error
    except OSError as error:
        raise CaptureError(str(path), error.strerror or "unreadable", hint="check the path") from error
    except ValueError as error:
        raise FormatError(str(path), "is not JSON", hint="collect it again") from error
    if not isinstance(document, dict):
        raise FormatError(str(path), "holds no JSON object", hint="collect it again")
    return document


def write_json(path: Path, document: Any) -> Path:
    """Write JSON to a file, whole or not at all.

    Raises:
        CaptureError: The folder cannot be written.
    """
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        reason = f"cannot be written: {error.strerror}"
        raise CaptureError(str(path), reason, hint="choose another folder with -o") from error
    return path


def _checked(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    version = document.get("schema_version")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        reason = f"schema_version is {version!r}; this tracekit reads up to {SCHEMA_VERSION}"
        raise FormatError(str(path), reason, hint="update tracekit, or collect it again")
    return document


def _build(path: Path, kind: type[T], values: Any) -> T:
    """An instance of a dataclass from JSON values; fields of a later minor version are left out."""
    known = {entry.name for entry in fields(kind)}  # type: ignore[arg-type]  # T is one of this file's dataclasses
    try:
        return kind(**{name: _frozen(value) for name, value in values.items() if name in known})
    except (AttributeError, TypeError) as error:
        reason = f"is not what it should be ({kind.__name__}: {error})"
        raise FormatError(str(path), reason, hint="collect it again") from error


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
