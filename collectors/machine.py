"""The machine as a capture describes it: what it is, never whose. No host name, no user name, no path."""

import os
import platform
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tracekit.errors import UnsupportedError

DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.float8_e4m3fn,
}

# CPU flags of which one must be there for a type to be multiplied in hardware.
_NATIVE = {
    "bf16": {"avx512_bf16", "amx_bf16", "bf16"},
    "fp16": {"avx512_fp16", "amx_fp16", "fphp", "asimdhp"},
}
BUSY_SHARE = 0.4
"""Load average over cores above which a note is due."""

_CACHES = "sys/devices/system/cpu"


@dataclass(frozen=True, slots=True)
class Machine:
    """The device that runs the workload.

    Attributes:
        kind: cpu or cuda.
        name: Model name.
        cores: Threads used on a CPU; streaming multiprocessors of a GPU.
        llc_bytes: Last cache before DRAM, all of its instances that the process may use; None where unknown.
        memory_bytes: All memory of the device.
        capability: Compute capability of a GPU, such as `9.0`; on a CPU the vector extension that torch uses.
    """

    kind: str
    name: str
    cores: int
    llc_bytes: int | None
    memory_bytes: int
    capability: str

    def description(self) -> dict[str, Any]:
        """As the manifest and the ceilings carry it."""
        return asdict(self)


def busy_note() -> str | None:
    """A note where other work keeps the cores busy: shared cores make times long and noisy."""
    if not hasattr(os, "getloadavg"):
        return None
    load, cores = os.getloadavg()[0], len(usable_cores())
    if load <= BUSY_SHARE * cores:
        return None
    return f"other work kept the machine busy at the start (load {load:.1f} on {cores} cores): expect long and noisy times"


def choose_device(wanted: str | None) -> torch.device:
    """The device to run on; a GPU where there is one and nothing else was asked for.

    Raises:
        UnsupportedError: The device is not cpu or cuda, or there is no GPU.
    """
    if wanted not in {None, "cpu", "cuda"}:
        raise UnsupportedError(f"device {wanted!r} is not known", hint="choose cpu or cuda")
    if wanted == "cuda" and not torch.cuda.is_available():
        reason = "no CUDA device: this PyTorch sees none"
        raise UnsupportedError(
            reason, hint="check the driver and that PyTorch is a CUDA build, or use --device cpu"
        )
    return torch.device(wanted or ("cuda" if torch.cuda.is_available() else "cpu"))


def describe(device: torch.device) -> Machine:
    """The machine behind a device."""
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        capability = f"{found.major}.{found.minor}"
        cache = getattr(found, "L2_cache_size", None)
        return Machine("cuda", found.name, found.multi_processor_count, cache, found.total_memory, capability)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    capability = torch.backends.cpu.get_cpu_capability()
    return Machine("cpu", cpu_name(), torch.get_num_threads(), last_level_cache(), memory, capability)


def usable_cores() -> set[int]:
    """Logical CPUs that the process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def physical_cores(root: Path = Path("/")) -> int:
    """Physical cores among the usable CPUs: two threads of one core share its multipliers."""
    cores = usable_cores()
    siblings = {
        _text(root / _CACHES / f"cpu{n}" / "topology" / "thread_siblings_list") or str(n) for n in cores
    }
    return len(siblings)


def last_level_cache(root: Path = Path("/")) -> int | None:
    """Bytes of the last-level caches of the usable CPUs, each instance once; None where the system does not say."""
    instances: dict[tuple[str, str], int] = {}
    for cpu in usable_cores():
        levels = [
            (int(_text(index / "level") or 0), index)
            for index in (root / _CACHES / f"cpu{cpu}" / "cache").glob("index*")
            if _text(index / "type") != "Instruction"
        ]
        if levels:
            level, index = max(levels, key=lambda entry: entry[0])
            shared = _text(index / "shared_cpu_list") or str(cpu)
            instances[str(level), shared] = _size(_text(index / "size") or "")
    return sum(instances.values()) or None


def cpu_name(root: Path = Path("/")) -> str:
    """The CPU's model name."""
    found = re.search(r"^model name\s*:\s*(.+)$", _text(root / "proc" / "cpuinfo") or "", re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def is_native(dtype: str, root: Path = Path("/")) -> bool:
    """Whether the CPU multiplies a type in hardware; what is emulated measures the emulation."""
    if dtype not in _NATIVE:
        return True
    found = re.search(
        r"^(?:flags|Features)\s*:\s*(.+)$", _text(root / "proc" / "cpuinfo") or "", re.MULTILINE
    )
    return bool(_NATIVE[dtype] & set(found[1].split())) if found else False


def available_memory(device: torch.device, root: Path = Path("/")) -> int:
    """Bytes that can be allocated now; on a CPU within the limits of the control group, too."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = re.search(r"^MemAvailable:\s*(\d+) kB", _text(root / "proc" / "meminfo") or "", re.MULTILINE)
    free = int(found[1]) * 1024 if found else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    group = root / "sys" / "fs" / "cgroup"
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        most, now = _text(group / limit) or "", _text(group / used) or ""
        if most.isdigit() and now.isdigit():
            free = min(free, max(0, int(most) - int(now)))
    return free


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(found[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[found[2]] if found else 0


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
