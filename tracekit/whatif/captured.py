"""The step that a capture ran, and what it took: where a prediction starts."""

from pathlib import Path

import numpy as np
import pandas as pd

from tracekit.errors import UnsupportedError, UsageError
from tracekit.formats import RUN, RunManifest
from tracekit.models import ModelConfig
from tracekit.report.result import Result
from tracekit.tables import Phase
from tracekit.tables.columns import column
from tracekit.tables.text import flagged
from tracekit.tables.words import UNFIT_STEP
from tracekit.whatif.answer import Seen, Target
from tracekit.whatif.efficiency import observe
from tracekit.whatif.scenario import PHASES, STORED, Scenario


def manifest(path: str) -> RunManifest | None:
    """The manifest of a folder that `tracekit collect` wrote; None for anything else."""
    return RunManifest.read(Path(path)) if (Path(path) / RUN).is_file() else None


def from_capture(
    result: Result, label: str, phase: str | None, config: ModelConfig | None, target: Target, ranks: int = 1
) -> Seen:
    """A captured phase.

    Args:
        result: The analysis of the capture.
        label: Its path.
        phase: `prefill` or `decode`; None for the one with most kernel time.
        config: The model; None where the capture's folder names it.
        target: The device that it ran on.
        ranks: Tensor-parallel ranks that shared the model.

    Raises:
        UsageError: The model is not known.
        UnsupportedError: The capture has no step of the phase whose tokens and requests are known.
    """
    run = manifest(label)
    if run is not None:
        # The manifest's dimensions are those of the rank that ran.
        config, ranks = ModelConfig.from_json(run.model), 1
    if config is None:
        raise UsageError(
            "whatif needs the model of this capture", hint="give --model PRESET or a config.json"
        )
    phase = phase or _longest(result)
    steps = _usable(result.steps, phase)
    requests = column(steps, "context_requests" if phase == "prefill" else "generation_requests")
    tokens = column(steps, "context_tokens" if phase == "prefill" else "generation_tokens")
    keys = column(steps, "sum_k")
    known = ~np.isnan(requests) & ~np.isnan(tokens) & ~np.isnan(keys) & (requests > 0)
    if not known.any():
        raise UnsupportedError(
            f"{label}: no {phase} step says its requests, tokens and KV lengths",
            hint="record with annotations (vLLM, SGLang, `tracekit collect`), or ask without a capture",
        )
    steps = steps[known]
    batch = float(np.median(requests[known]))
    asked = max(1, round(float(np.median(tokens[known] / requests[known]))))
    cached = max(0, round(float(np.median(keys[known] / requests[known]))) - asked)
    dtype = run.workload.dtype if run is not None else "bf16"
    scenario = Scenario(
        config,
        phase,
        max(1, round(batch)),
        asked,
        cached,
        dtype,
        dtype,
        _stored(run.workload.kv_dtype, dtype) if run is not None else dtype,
        ranks,
        draft=asked - 1 if phase == "decode" else 0,
    ).checked()
    kernels = result.kernels[result.kernels["step_id"].isin(steps["step_id"])]
    return Seen(scenario, target, observe(kernels, steps, result.gaps), label)


def _stored(word: str, otherwise: str) -> str:
    return word if word in STORED else otherwise


def _longest(result: Result) -> str:
    found = [row for row in result.overview.phases if row.phase in PHASES]
    if not found:
        raise UnsupportedError(
            "the capture has neither prefill nor decode", hint="ask without a capture: --model"
        )
    return max(found, key=lambda row: row.time_ns).phase


def _usable(steps: pd.DataFrame, phase: str) -> pd.DataFrame:
    cut = flagged(steps["flags"], UNFIT_STEP)
    chosen = (steps["phase"].astype(object) == str(Phase(phase))).to_numpy(dtype=bool)
    usable: pd.DataFrame = steps[chosen & ~cut & (steps["n_kernels"] > 0).to_numpy(dtype=bool)]
    return usable
