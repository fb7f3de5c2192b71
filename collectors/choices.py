"""From what was asked for to what runs: the defaults of a device, and what it cannot run."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from collectors.building import Origin
from collectors.ceilings import BUFFER_BYTES
from collectors.compiling import check_compiler
from collectors.graphs import check_graphs
from collectors.huggingface import check_backend, has_weights
from collectors.machine import Machine, available_memory, is_native
from collectors.memory import HEADROOM
from collectors.sweep import Point
from tracekit.errors import UnsupportedError
from tracekit.formats import (
    ATTENTION,
    BACKENDS,
    DTYPES,
    KV_DTYPES,
    PHASES,
    CollectRequest,
    Workload,
    read_json,
)
from tracekit.models import ITEM_BYTES, ModelConfig, parameters, preset, resolve, weight_bytes

CPU_MODEL = "tiny-cpu"
STREAMED = 2
"""Weights of so many last-level caches pass through them: little is still there when a step reads them again."""
CUDA_MODELS = ("Llama-3.1-8B", "Qwen3-8B", "Qwen3-0.6B")
"""Defaults on a GPU: the first whose weights take at most half of the free memory."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One capture, decided.

    Attributes:
        config: The model as it runs: truncated and sharded.
        workload: What runs.
        notes: What the reader of the figures must know of the choice.
        origin: Where a model of Hugging Face's classes comes from.
    """

    config: ModelConfig
    workload: Workload
    notes: list[str]
    origin: Origin = field(default_factory=Origin)


def check_request(request: CollectRequest) -> None:
    """Refuse what no device can run.

    Raises:
        UnsupportedError: A word is not known, or a size is not positive.
    """
    words = (
        ("--dtype", [dtype for dtype in request.dtypes if dtype], DTYPES),
        ("--kv-dtype", [request.kv_dtype] if request.kv_dtype else [], KV_DTYPES),
        ("--phase", request.phases, PHASES),
        ("--attention", [request.attention], ATTENTION),
        ("--backend", [request.backend], BACKENDS),
    )
    for option, given, known in words:
        for word in given:
            if word not in known:
                raise UnsupportedError(
                    f"{option} {word!r} is not known", hint=f"choose from {', '.join(known)}"
                )
    sizes: tuple[tuple[str, Sequence[int], int], ...] = (
        ("--batch", request.batches, 1),
        ("--prompt-len", request.prompt_lens, 2),
        ("--kv-len", request.kv_lens, 1),
        ("--decode-steps", (request.decode_steps,), 1),
        ("--repeats", (request.repeats,), 1),
        ("--warmup", (request.warmup,), 0),
        ("--tp", (request.tensor_parallel,), 1),
    )
    for option, values, least in sizes:
        if not values or min(values) < least:
            raise UnsupportedError(
                f"{option} must be at least {least}", hint=f"give {option} {least} or more"
            )
    if not request.phases:
        reason = "no phase to run"
        raise UnsupportedError(reason, hint=f"choose from {', '.join(PHASES)}")


def choose(request: CollectRequest, point: Point, device: torch.device, machine: Machine) -> Choice:
    """The model and the workload of one capture, and what the reader must know about the choice.

    Args:
        request: What was asked for.
        point: The values of its lists.
        device: Where it runs.
        machine: Its description.

    Raises:
        UnsupportedError: A model that is not known, a type that this CPU emulates, or an option that this device,
            this installation or this model cannot follow.
        CaptureError: A model configuration that cannot be read.
    """
    dtype = point.dtype or ("fp32" if device.type == "cpu" else "bf16")
    if device.type == "cpu" and not is_native(dtype):
        reason = f"this CPU has no {dtype} arithmetic: it would be emulated, and measure the emulation"
        raise UnsupportedError(reason, hint="use --dtype fp32")
    notes: list[str] = []
    if point.model is not None:
        config = resolve(point.model)
    elif device.type == "cpu":
        config = _cpu_default(machine, dtype, available_memory(device), notes, grow=request.layers is None)
    else:
        config = _cuda_default(dtype, available_memory(device))
    if request.layers is not None:
        config = config.truncated(request.layers)
    config = config.sharded(request.tensor_parallel)
    _add_notes(config, request, machine, dtype, notes)
    workload = _workload(request, point, config, dtype, device)
    _check_options(config, workload, device)
    return Choice(config, workload, notes, _origin(point, request, notes))


def _check_options(config: ModelConfig, workload: Workload, device: torch.device) -> None:
    """Refuse what cannot run with this model, on this device, in this installation."""
    if workload.backend == "transformers":
        check_backend(workload)
    if workload.cuda_graphs:
        check_graphs(device, experts=bool(config.experts), decodes="decode" in workload.phases)
    if workload.compile or workload.attention == "flex":
        check_compiler("--compile" if workload.compile else "--attention flex", device)
    windowed = any(config.windowed) and config.sliding_window < workload.prompt_len
    if (
        workload.attention == "flash"
        and device.type == "cuda"
        and windowed
        and workload.phases != ("decode",)
    ):
        raise UnsupportedError(
            f"--attention flash cannot hide keys behind the window of {config.name}: PyTorch's flash kernel takes no mask",
            hint=f"use --attention sdpa or flex, or a --prompt-len of at most {config.sliding_window}",
        )


def _origin(point: Point, request: CollectRequest, notes: list[str]) -> Origin:
    """The configuration and the weights that Hugging Face's classes are made from.

    Raises:
        CaptureError: The configuration cannot be read.
    """
    if request.backend != "transformers" or point.model is None:
        return Origin()
    path = Path(point.model)
    if not (path.is_dir() or path.suffix.lower() == ".json"):
        return Origin()
    document = read_json(path / "config.json" if path.is_dir() else path)
    if not path.is_dir() or not has_weights(path):
        return Origin(document)
    unread = (
        "its weights are quantised" if "quantization_config" in document else
        "a rank of several holds a part" if request.tensor_parallel > 1 else
        None
    )  # fmt: skip
    notes.append("weights of the local checkpoint" if unread is None else f"random weights: {unread}")
    return Origin(document, path if unread is None else None)


def _cpu_default(machine: Machine, dtype: str, free: int, notes: list[str], *, grow: bool) -> ModelConfig:
    """The small model, with so many layers that no cache holds the weights that a decode step reads."""
    config = preset(CPU_MODEL)
    if not grow:
        return config
    item = ITEM_BYTES[dtype]
    needed = max(BUFFER_BYTES, STREAMED * (machine.llc_bytes or 0))
    layer = (parameters(config).active - parameters(config.truncated(1)).active) // (config.layers - 1) * item
    missing = needed - parameters(config).active * item
    layers = config.layers + max(0, -(-missing // layer))
    # The rest of the memory is for caches, activations and the libraries.
    most = int(free * HEADROOM / 2) // layer
    if layers > most >= 1:
        notes.append(f"{layers} layers would exceed the caches, {most} fit in memory")
        layers = most
    return replace(config, layers=layers)


def _cuda_default(dtype: str, free: int) -> ModelConfig:
    fitting = [preset(name) for name in CUDA_MODELS if weight_bytes(preset(name), dtype) <= free // 2]
    return fitting[0] if fitting else preset(CUDA_MODELS[-1])


def _add_notes(
    config: ModelConfig, request: CollectRequest, machine: Machine, dtype: str, notes: list[str]
) -> None:
    read = parameters(config).active * ITEM_BYTES[dtype]
    cache = machine.llc_bytes
    if cache is None:
        notes.append("the size of the last-level cache is unknown; weights may be read from it")
    elif read < STREAMED * cache:
        notes.append(
            f"a decode step reads {read / 1e6:.0f} MB of weights and the last-level cache holds {cache / 1e6:.0f} MB: "
            "part of them is not read from DRAM, and MBU may pass 100 %"
        )
    if config.sinks and request.attention != "eager":
        notes.append("attention sinks: attention runs unfused, the fused kernels have no place for a sink")
    if config.experts:
        notes.append("random routing spreads tokens evenly: the number of active experts is an upper bound")
    if request.tensor_parallel > 1:
        notes.append(f"one rank of {request.tensor_parallel}: its part of the work, without communication")
    if request.kv_dtype not in {None, dtype}:
        notes.append(f"the KV cache is {request.kv_dtype} and is converted to {dtype} on every read")


def _workload(
    request: CollectRequest, point: Point, config: ModelConfig, dtype: str, device: torch.device
) -> Workload:
    return Workload(
        model=config.name if point.model is None else Path(config.name).name,
        dtype=dtype,
        kv_dtype=request.kv_dtype or dtype,
        phases=request.phases,
        batch=point.batch,
        prompt_len=point.prompt_len,
        kv_len=point.kv_len,
        decode_steps=request.decode_steps,
        warmup=request.warmup,
        repeats=request.repeats,
        seed=request.seed,
        device=device.type,
        attention=request.attention,
        tensor_parallel=request.tensor_parallel,
        backend=request.backend,
        compile=request.compile,
        cuda_graphs=request.cuda_graphs,
    )
