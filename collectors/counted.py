"""The workload that runs under ncu: the same seeded steps as a capture, once, eagerly, in NVTX ranges.

Run as `python -m collectors.counted SPEC`, with the JSON that `specification` gives; never with torch.profiler in the
process, since only one profiler can hold the counters.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from collectors.building import Origin
from collectors.workload import Runner, Step
from tracekit.formats import Workload
from tracekit.models import ModelConfig
from tracekit.ncu import RANGE

MODULE = "collectors.counted"
PROBE = "probe"
STEPS = 3
"""Steps of a phase that are profiled: the later ones launch the same kernels again."""


def specification(config: ModelConfig, workload: Workload, origin: Origin | None = None) -> str:
    """A model and a workload as one argument."""
    spoken = {"model": config.to_json(), "workload": asdict(workload)}
    if origin is not None and origin != Origin():
        spoken["origin"] = origin.to_json()
    return json.dumps(spoken, separators=(",", ":"))


def run(config: ModelConfig, workload: Workload, origin: Origin | None = None) -> int:
    """Warm up, then run the first steps of each phase inside the range that is profiled.

    Returns:
        Steps that ran in it.
    """
    device = torch.device(workload.device)
    # Inside a graph no range opens, and a profiler that replays kernels needs them one by one.
    runner = Runner(config, replace(workload, cuda_graphs=False), device, origin)
    runner.warm_up(_Silent())
    with _range(RANGE, device):
        return sum(_phase(runner, phase, steps[:STEPS], device) for phase, steps in runner.plan.items())


@torch.inference_mode()
def _phase(runner: Runner, phase: str, steps: Sequence[Step], device: torch.device) -> int:
    chosen: Tensor | None = None
    for step in steps:
        with _range(step.annotation, device):
            chosen = runner.forward(phase, step, chosen)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
    return len(steps)


@contextmanager
def _range(name: str, device: torch.device) -> Iterator[None]:
    if device.type != "cuda":
        yield
        return
    torch.cuda.nvtx.range_push(name)  # type: ignore[no-untyped-call]  # PyTorch gives it no types
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()  # type: ignore[no-untyped-call]  # as above


class _Silent:
    """Progress that nobody sees: ncu's own lines tell how far it is."""

    def begin(self, task: str, total: int) -> None:
        """Nothing."""

    def advance(self) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


def probe() -> None:
    """One small kernel in the range that is profiled."""
    device = torch.device("cuda")
    with _range(RANGE, device):
        torch.ones(1024, device=device).add_(1.0)
        torch.cuda.synchronize(device)


def main(arguments: Sequence[str]) -> None:
    """Run what the one argument says."""
    if arguments[0] == PROBE:
        probe()
        return
    values: dict[str, Any] = json.loads(arguments[0])
    workload = Workload(**{**values["workload"], "phases": tuple(values["workload"]["phases"])})
    origin = Origin.from_json(values["origin"]) if "origin" in values else None
    run(ModelConfig.from_json(values["model"]), workload, origin)


if __name__ == "__main__":
    main(sys.argv[1:])
