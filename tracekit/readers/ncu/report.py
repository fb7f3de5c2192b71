"""Reports of Nsight Compute (`.ncu-rep`), read by NVIDIA's own package where it is installed.

The package `ncu-report` is under a licence of NVIDIA's own, which whoever installs it accepts; nothing of it is part
of tracekit. Without it, one line of `ncu` prints the report as CSV.
"""

import importlib
from collections.abc import Iterator
from typing import Any

from tracekit.errors import CaptureError, UnsupportedError
from tracekit.ncu.command import import_command, shell
from tracekit.ncu.quantities import wanted_metrics
from tracekit.readers.ncu.launches import Launches
from tracekit.tables import Counters, QualityNote

MAGIC = b"NVR\x00"
_MODULE = "ncu_report"
_AXES = "xyz"


def read_report(path: str) -> tuple[Counters, list[QualityNote]]:
    """The counters of a report.

    Raises:
        UnsupportedError: NVIDIA's package is not installed: how to get a CSV instead.
        CaptureError: The package cannot read the file, or no launch is in it.
    """
    try:
        module = importlib.import_module(_MODULE)
    except ImportError as error:
        line = shell(import_command(path))
        raise UnsupportedError(
            f"{path}: a report of Nsight Compute, which needs NVIDIA's package ncu-report",
            hint=f"print it with: {line} > counters.csv; or install tracekit-llm[ncu-rep]",
        ) from error
    found = Launches()
    try:
        context = module.load_report(path)
        for action in _actions(context):
            _add(found, action)
    except (OSError, RuntimeError, ValueError) as error:
        raise CaptureError(path, f"NVIDIA's package cannot read it: {error}", hint=_by_hand(path)) from error
    if not found.rows:
        raise CaptureError(path, "no profiled launch in it", hint="profile again; see its log for the reason")
    return found.counters({})


def _by_hand(path: str) -> str:
    return f"update ncu-report, or print it with the ncu that wrote it: {shell(import_command(path))}"


def _actions(context: Any) -> Iterator[Any]:
    for part in range(len(context)):
        chosen = context[part]
        yield from (chosen[number] for number in range(len(chosen)))


def _add(found: Launches, action: Any) -> None:
    number = len(found.rows)
    found.rows.append(
        {
            "launch": number,
            "name": str(action.name(action.NameBase_DEMANGLED)),
            "device": _integer(action, "launch__device_id"),
            "stream": _integer(action, "launch__stream_id"),
            "grid": _triple(action, "grid"),
            "block": _triple(action, "block"),
            "cc": _capability(action),
            "ranges": "\n".join(_ranges(action)) or None,
        }
    )
    names = set(action.metric_names())
    found.metrics |= names
    for name in sorted(names & wanted_metrics()):
        metric = action.metric_by_name(name)
        if metric is not None and metric.has_value():
            found.cells.append((number, name, str(metric.unit()), repr(metric.value())))


def _value(action: Any, name: str) -> Any:
    metric = action.metric_by_name(name)
    return None if metric is None or not metric.has_value() else metric.value()


def _integer(action: Any, name: str) -> int | None:
    value = _value(action, name)
    return int(value) if isinstance(value, (int, float)) else None


def _triple(action: Any, what: str) -> str | None:
    sides = [_integer(action, f"launch__{what}_dim_{axis}") for axis in _AXES]
    return None if None in sides else ",".join(str(side) for side in sides)


def _capability(action: Any) -> str | None:
    parts = [_integer(action, f"device__attribute_compute_capability_{part}") for part in ("major", "minor")]
    return None if None in parts else f"{parts[0]}.{parts[1]}"


def _ranges(action: Any) -> Iterator[str]:
    state = action.nvtx_state()
    for domain in () if state is None else state.domains():
        info = state.domain_by_id(domain)
        yield from (str(name) for name in (*info.push_pop_ranges(), *info.start_end_ranges()))
