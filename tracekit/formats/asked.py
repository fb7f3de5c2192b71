"""What a collection is asked for, and the text that it writes around each step."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

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
