"""What the collector tests share: a recording progress, and a collector that measures for milliseconds."""

from collections.abc import Callable
from typing import Any

import pytest

from tracekit.formats import CollectRequest, Progress

Collect = Callable[[CollectRequest, Progress], Any]


class Recorder:
    """Progress that remembers what it was told."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, int]] = []
        self.done: dict[str, int] = {}

    def begin(self, task: str, total: int) -> None:
        self.tasks.append((task, total))
        self.done.setdefault(task, 0)

    def advance(self) -> None:
        self.done[self.tasks[-1][0]] += 1

    def note(self, text: str) -> None:
        self.tasks.append((text, 0))


def quick_collect() -> Collect:
    """The collector, measuring ceilings over buffers that take milliseconds."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from collectors.ceilings import Effort  # noqa: PLC0415 - needs torch, which may be absent
    from collectors.command import collect  # noqa: PLC0415 - as above

    quick = Effort(sides=(64,), buffer_bytes=1 << 20, repeats=2, inner=1, ops=50)

    def run(request: CollectRequest, progress: Progress) -> Any:
        return collect(request, progress, effort=quick)

    return run


def collect_quickly(request: CollectRequest, progress: Progress) -> Any:
    """An entry point of the quick collector."""
    return quick_collect()(request, progress)
