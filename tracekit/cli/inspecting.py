"""`tracekit inspect`: what is in a capture."""

from typing import Any

from tracekit.cli.options import Cache, CacheDir, Captures, Data, Json, choices, finish, reading

_SHOWN = 20
"""Steps that the text names one by one."""


def inspect(
    captures: Captures,
    as_json: Json = False,
    data: Data = None,
    cache: Cache = False,
    cache_dir: CacheDir = None,
) -> None:
    """Say what is in each capture: events, kernels, times, steps, device, and what is damaged or missing."""
    from tracekit.pipeline import inspect_captures
    from tracekit.report.console import emit_json, write

    with reading() as progress:
        document = inspect_captures(
            captures, choices(data=data, cache=cache, cache_dir=cache_dir, progress=progress)
        )
    if as_json:
        emit_json(document)
    else:
        for capture in document["captures"]:
            write(_text(capture))
    finish(document["errors"])


def _text(capture: dict[str, Any]) -> str:
    from tracekit.units import duration, plain

    counts, times, device = capture["counts"], capture["time_ns"], capture["device"]
    lines = [
        f"{capture['path']}: {capture['format']}, engine {capture['engine'] or 'not told'}, device {device['name'] or '-'} (matched: {device['matched'] or 'none'})",
        f"  {counts['events']} events, {counts['kernels']} kernels ({counts['kernels_from_graph']} from {counts['graph_launches']} graph launches, {counts['kernels_without_launch']} without a launch record), {counts['memcpy']} copies, {counts['memset']} fills, {counts['cpu_ops']} CPU ops",
        f"  kernels {duration(times['kernel_sum'])}, device busy {duration(times['gpu_union'])} of {duration(times['gpu_span'])}",
    ]
    lines += [f"  ! {note['code']} ({note['count']}): {note['message']}" for note in capture["quality"]]
    for key, what in (("steps", "step"), ("inferred_steps", "inferred step")):
        lines += [_step(what, step) for step in capture[key][:_SHOWN]]
        if len(capture[key]) > _SHOWN:
            lines.append(f"  ... and {len(capture[key]) - _SHOWN} more")
    lines += [
        f"  {duration(row['sum_ns']):>9}  {row['count']:>6} x  {plain(row['name'], 100)}"
        for row in capture["top_kernels"]
    ]
    return "\n".join(lines)


def _step(what: str, step: dict[str, Any]) -> str:
    from tracekit.units import duration

    return f"  {what} {step['phase']}: {step['n_kernels']} kernels, {duration(step['kernel_sum_ns'])} ({step['evidence']})"
