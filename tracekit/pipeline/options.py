"""What a user may choose about an analysis."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tracekit.readers.source import Progress


@dataclass(frozen=True, slots=True)
class Options:
    """Choices of one analysis; every default is "what the captures say".

    Attributes:
        data: Folders of the user's own rows of data.
        device: Name of the device whose ceilings apply.
        peaks: Given peaks by word (bf16, vector …) [FLOP/s].
        dram: Given DRAM bandwidth [byte/s].
        model: Model preset or path of a config.json, for kernels without recorded shapes.
        ranks: Tensor-parallel ranks that share the model; None for the ranks that the capture names.
        donors: Captures whose recorded shapes stand in for missing ones.
        counters: Files of hardware counters of the same run.
        unprofiled: By phase, the time of a step without a profiler [ns]: a measured TPOT for decode, TTFT for prefill.
        steady: Leave out decode steps below the median batch, and steps that the window cuts.
        cache: Folder in which parsed captures are kept, by content; None to keep none.
        progress: Called while reading, with raw bytes read and the size, by capture label.
    """

    data: tuple[Path, ...] = ()
    device: str | None = None
    peaks: Mapping[str, float] = field(default_factory=dict)
    dram: float | None = None
    model: str | None = None
    ranks: int | None = None
    donors: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    unprofiled: Mapping[str, float] = field(default_factory=dict)
    steady: bool = False
    cache: Path | None = None
    progress: Progress | None = None
