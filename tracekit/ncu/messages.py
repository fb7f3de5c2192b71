"""What ncu prints when it fails, and what to do about each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

NOISE = re.compile(r"^\s*==(?P<level>[A-Z]+)==\s*(?P<text>.*)$")
"""A line of ncu's own: `==PROF== …`, `==WARNING== …`, `==ERROR== …`."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there are no counters.

    Attributes:
        code: Stable word.
        reason: What happened, in one line.
        hint: What to do.
        quoted: ncu's own line, where it printed one.
    """

    code: str
    reason: str
    hint: str
    quoted: str = ""


_PERMISSION = "as root (in a container: as root inside, with CAP_SYS_ADMIN), or let the driver allow all users: NVreg_RestrictProfilingToAdminUsers=0"
_KNOWN: tuple[tuple[str, str, str, str], ...] = (
    (
        r"ERR_NVGPUCTRPERM|INSUFFICIENT_PRIVILEGES|permission to access NVIDIA GPU Performance Counters",
        "no_permission",
        "the user may not read GPU performance counters",
        f"run ncu {_PERMISSION}",
    ),
    (
        r"No kernels were profiled",
        "no_kernels",
        "ncu met no kernel that its filters let through",
        "check the range filter (push/pop ranges end in a slash and hold per thread), --launch-skip, and that the workload reached the GPU",
    ),
    (
        r"(?i)driver.*(?:not compatible|not supported|too old)|incompatible driver|driver version is insufficient|Cuda driver is not compatible",
        "driver",
        "the driver does not fit this Nsight Compute",
        "use the Nsight Compute of the driver's CUDA version, or update the driver",
    ),
    (
        r"(?i)libcuda\.so|no CUDA-capable device|driver could not be loaded|Failed to initialize the (?:CUDA|NVIDIA) driver|NoDevice|no devices? (?:were )?found",
        "no_gpu",
        "no GPU or no driver was found",
        "run on a machine with an NVIDIA GPU; in a container start it with --gpus all",
    ),
    (
        r"(?i)hardware (?:is )?busy|resource (?:is )?(?:busy|unavailable)|already (?:in use|profiled|being profiled)|another (?:tool|profiler|client)|CUPTI_ERROR_MULTIPLE_SUBSCRIBERS|DCGM",
        "busy",
        "another profiler holds the counters",
        "stop DCGM (`dcgmi profile --pause`), other CUPTI clients and torch.profiler; one profiler at a time",
    ),
    (
        r"(?i)Failed to find metric|metric.*(?:does not exist|not (?:found|available|supported))|Unknown metric|invalid metric",
        "metric",
        "a metric does not exist on this GPU",
        "take the list for this chip: `tracekit metrics --chip CHIP`",
    ),
    (
        r"(?i)out of memory|failed to (?:save|back ?up|restore) (?:device )?memory",
        "memory",
        "there was no memory left to save what a kernel writes, as replay needs",
        "use a smaller KV cache or batch, or collect the single-pass set alone",
    ),
    (
        r"(?i)unsupported (?:GPU|device|chip)|(?:GPU|chip|architecture).*not supported|Profiling is not supported",
        "unsupported_gpu",
        "this Nsight Compute does not know the GPU",
        "use a newer Nsight Compute",
    ),
    (
        r"(?i)application returned an error code|application.*(?:crashed|terminated|exited)|target (?:application|process).*(?:failed|exit)",
        "application",
        "the profiled program itself failed",
        "run it without ncu first",
    ),
)


def explain(lines: Sequence[str], exit_code: int | None = None) -> Failure:
    """Why there is no table, from what ncu printed.

    Args:
        lines: Its output, line by line.
        exit_code: Its exit code, where known.
    """
    for pattern, code, reason, hint in _KNOWN:
        search = re.compile(pattern).search
        quoted = next((line.strip() for line in lines if search(line)), None)
        if quoted is not None:
            return Failure(code, reason, hint, quoted)
    errors = [match for line in lines if (match := NOISE.match(line)) and match["level"] == "ERROR"]
    if errors:
        said = errors[0].string.strip()
        return Failure(
            "profiler", "ncu reported an error", "see its message; `ncu --help` describes its options", said
        )
    if exit_code:
        return Failure("exit_code", f"ncu ended with exit code {exit_code} and no table", "see its log")
    hint = "print the report with: ncu --import FILE.ncu-rep --csv --page raw --print-units base"
    return Failure("no_table", "there is no table of metrics in it", hint)
