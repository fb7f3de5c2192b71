"""torch.compile for the collectors: what it needs on a machine, and kernels that a trace names."""

import os
import shutil
from importlib.util import find_spec
from typing import Any

import torch

from tracekit.errors import UnsupportedError

_RECOMPILE_LIMIT = 64


def check_compiler(option: str, device: torch.device) -> None:
    """Refuse what TorchInductor cannot build here, before any work.

    Args:
        option: What was asked for, in the user's words.
        device: Where it is to run.

    Raises:
        UnsupportedError: No C++ compiler on a CPU; no Triton or no C compiler on a GPU.
    """
    if device.type == "cpu":
        wanted = os.environ.get("CXX", "g++")
        if shutil.which(wanted) is None:
            raise UnsupportedError(
                f"{option} needs a C++ compiler on a CPU, and {wanted!r} is not in PATH",
                hint="install g++, or set CXX to another compiler",
            )
        return
    if find_spec("triton") is None:
        raise UnsupportedError(
            f"{option} needs Triton on a GPU, and it is not installed", hint="pip install triton"
        )
    if not any(shutil.which(name) for name in (os.environ.get("CC", "gcc"), "cc", "clang")):
        raise UnsupportedError(
            f"{option} needs a C compiler for Triton's launchers", hint="install gcc, or set CC to another"
        )


def named_kernels(device: torch.device) -> None:
    """Give each generated kernel of a CPU an event of its own in a trace; on a GPU it has one anyway."""
    if device.type == "cpu":
        from torch import _inductor  # noqa: PLC0415 - seconds to import, and only compiled runs need it

        _inductor.config.cpp.enable_kernel_profile = True


def compiled(model: torch.nn.Module, device: torch.device) -> Any:
    """The model compiled, its kernels named."""
    from torch import _dynamo  # noqa: PLC0415 - as above

    named_kernels(device)
    # A phase and a length each may need a graph of their own; beyond the limit PyTorch falls back to eager in silence.
    # PyTorch 2.5 has the limit under its older name.
    name = "recompile_limit" if hasattr(_dynamo.config, "recompile_limit") else "cache_size_limit"
    setattr(_dynamo.config, name, max(_RECOMPILE_LIMIT, getattr(_dynamo.config, name)))
    _dynamo.utils.counters.clear()
    return torch.compile(model)


def graphs_made() -> int:
    """Graphs compiled so far."""
    from torch import _dynamo  # noqa: PLC0415 - as above

    return int(_dynamo.utils.counters["stats"]["unique_graphs"])


def compile_note(warm: int) -> str:
    """What became of the compilation: graphs made, how often the code had to leave them, and whether in time.

    Args:
        warm: Graphs made when the warm-up ended.
    """
    from torch import _dynamo  # noqa: PLC0415 - as above

    breaks = sum(_dynamo.utils.counters["graph_break"].values())
    left = "no graph break" if not breaks else f"{breaks} graph breaks: code between them ran uncompiled"
    late = graphs_made() - warm
    slow = f"; {late} graphs were compiled while times were taken, which are too long for it" if late else ""
    return f"compiled: {warm} graphs, {left}{slow}"
