"""Small kernels tables and counter tables, with the columns that the join looks at."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from tracekit.tables import COUNTER_LAUNCHES, COUNTER_VALUES, STEPS, Counters

DRAM = "dram__bytes.sum"
Kernel = tuple[str, str]


def kernels(
    names: Sequence[Kernel], *, stream: int = 7, step: Sequence[int] | None = None, peak: str | None = None
) -> pd.DataFrame:
    """One kernel a (name, grid), a microsecond each."""
    count = len(names)
    return pd.DataFrame(
        {
            "kernel_id": np.arange(count),
            "kind": pd.Categorical(["kernel"] * count),
            "name": pd.Categorical([name for name, _ in names]),
            "grid": pd.Categorical([grid for _, grid in names]),
            "block": pd.Categorical(["128,1,1"] * count),
            "stream": pd.array([stream] * count, dtype="Int64"),
            "device": pd.array([0] * count, dtype="Int32"),
            "step_id": pd.array(step if step is not None else [pd.NA] * count, dtype="Int64"),
            "dur_ns": pd.array([1000] * count, dtype="Int64"),
            "peak": pd.Categorical([peak] * count, categories=["vector", "bf16", "fp16", "fp8", "fp32"]),
        }
    )


def counters(
    launches: Sequence[Mapping[str, object]], metrics: Sequence[Mapping[str, float | None]]
) -> Counters:
    """Launches and the metrics measured of each; None is a metric that failed."""
    rows = [
        {"launch": number, "block": "128,1,1", "stream": 7, "device": 0, "process": 1, "cc": "9.0", **launch}
        for number, launch in enumerate(launches)
    ]
    readings = [
        {
            "launch": number,
            "metric": metric,
            "value": value,
            "unit": "",
            "status": "failed" if value is None else "measured",
        }
        for number, one in enumerate(metrics)
        for metric, value in one.items()
    ]
    return Counters(
        COUNTER_LAUNCHES.conform(pd.DataFrame(rows, columns=COUNTER_LAUNCHES.names)),
        COUNTER_VALUES.conform(pd.DataFrame(readings, columns=COUNTER_VALUES.names)),
    )


def steps(annotations: Sequence[str] = ()) -> pd.DataFrame:
    """Steps by annotation."""
    return STEPS.conform(pd.DataFrame({"step_id": range(len(annotations)), "annotation": list(annotations)}))
