"""What the acceptance run needs inside a process of its own: the machine, kernels of known work, a workload for nsys."""

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

SIDE = 4096
"""Side of the square product: 2 · 4096³ operations."""
LANES, TURNS = 1 << 22, 64
"""Elements of the packed half kernel, and multiply-adds of each."""


def environment() -> None:
    """Print versions, the device, and what its driver says of clocks."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "ncu": _version("ncu"),
        "nsys": _version("nsys"),
    }
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        found |= {
            "device": properties.name,
            "sms": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "clocks": _output(
                "nvidia-smi",
                "--query-gpu=clocks.sm,clocks.max.sm,clocks.mem,power.limit,driver_version",
                "--format=csv",
            ),
        }
    print(json.dumps(found, indent=1))


def _version(name: str) -> str | None:
    said = _output(name, "--version")
    return next((line for line in said.splitlines() if "ersion" in line), None) if said else None


def _output(*words: str) -> str:
    if shutil.which(words[0]) is None:
        return ""
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stdout.strip()


def command(report: str, caches: str) -> None:
    """Print the two command lines that count the probe's kernels, as JSON: to record, and to print as CSV."""
    from collectors.counters import find_ncu
    from tracekit.ncu import Recording, chip, import_command, record_command

    ncu = find_ncu()
    if ncu is None:
        sys.exit("ncu was not found")
    major, minor = torch.cuda.get_device_capability()
    on = chip(f"{major}.{minor}")
    metrics = (
        "gpu__time_duration.sum",
        "dram__bytes.sum",
        "sm__cycles_elapsed.avg.per_second",
        "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
        *on.metrics.get("tensor_bf16", ()),
    )
    recording = Recording(metrics, report, f"{report}.log", cache_control=caches, launch_count=40, ncu=ncu)
    program = [sys.executable, str(Path(__file__).resolve()), "--kernels"]
    print(json.dumps([record_command(recording, program), import_command(f"{report}.ncu-rep", ncu)]))


def kernels() -> None:
    """In the range that is profiled: a product of known operations, a thin one, a copy of known bytes, packed halves."""
    from tracekit.ncu import RANGE

    device = torch.device("cuda")
    left, right = (torch.randn(SIDE, SIDE, device=device, dtype=torch.bfloat16) for _ in range(2))
    thin = torch.randn(1, SIDE, device=device, dtype=torch.bfloat16)
    source = torch.randn(1 << 28, device=device)
    target = torch.empty_like(source)
    work: list[tuple[str, Callable[[], Any]]] = [
        ("square product", lambda: left @ right),
        ("thin product", lambda: thin @ right),
        ("copy", lambda: target.copy_(source)),
    ]
    packed = _packed(device)
    if packed is not None:
        work.append(("packed halves", packed))
    for _, run in work:
        run()
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_push(RANGE)
    for name, run in work:
        torch.cuda.nvtx.range_push(name)
        run()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.range_pop()


def _packed(device: torch.device) -> Callable[[], Any] | None:
    """A kernel of multiply-adds in packed half precision; None where Triton is not there."""
    try:
        import triton
        import triton.language as tl
    except ModuleNotFoundError:
        return None

    @triton.jit
    def packed_halves(values, turns: tl.constexpr, size: tl.constexpr):  # noqa: ANN001, ANN202 - Triton's own language
        at = tl.program_id(0) * size + tl.arange(0, size)
        x = tl.load(values + at)
        y = x
        for _ in range(turns):
            y = y * x + x
        tl.store(values + at, y)

    values = torch.randn(LANES, device=device, dtype=torch.float16)
    return lambda: packed_halves[(LANES // 1024,)](values, TURNS, 1024)


def workload(model: str, layers: int) -> None:
    """The first steps of prefill and decode, eagerly, in NVTX ranges."""
    from collectors.counted import run
    from tracekit.formats import Workload
    from tracekit.models import preset

    config = preset(model).truncated(layers)
    run(
        config,
        Workload(
            model=model,
            dtype="bf16",
            kv_dtype="bf16",
            phases=("prefill", "decode"),
            batch=1,
            prompt_len=512,
            kv_len=1000,
            decode_steps=8,
            warmup=2,
            repeats=1,
            seed=0,
            device="cuda",
            attention="sdpa",
        ),
    )


def main(words: list[str]) -> None:
    """Do what the first word says."""
    if words[0] == "--environment":
        environment()
    elif words[0] == "--command":
        command(words[1], words[2])
    elif words[0] == "--kernels":
        kernels()
    elif words[0] == "--workload":
        workload(words[1], int(words[2]))
    else:
        sys.exit(f"acceptance_probe: {words[0]!r} is not known")


if __name__ == "__main__":
    main(sys.argv[1:])
