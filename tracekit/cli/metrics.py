"""`tracekit metrics`: which hardware counters to collect on a chip, what they cost, and the command lines."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.options import Data, Json

if TYPE_CHECKING:
    from tracekit.ncu import Chip, MetricSet, Run

SCHEMA_VERSION = 1
_WORKLOAD = ("python", "workload.py")


def metrics(
    chip: Annotated[
        str | None,
        typer.Option(
            "--chip",
            help="Chip (gh100) or compute capability (9.0); all are listed without it.",
            show_default=False,
        ),
    ] = None,
    chosen: Annotated[str, typer.Option("--set", help="lite, flops or full.")] = "lite",
    dtypes: Annotated[
        list[str] | None,
        typer.Option(
            "--dtype",
            help="Count matrix operations of this type alone; each type costs about a pass.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Print the metrics of a set on a chip, the passes that they take, and the ncu command lines.

    DRAM bytes are a run of their own, in one pass, so that nothing is replayed with warm caches.

    Raises:
        UnsupportedError: No such chip or set, or a type that the chip does not count.
    """
    from tracekit.ncu import chip as find
    from tracekit.ncu import chips, metric_set, runs

    extra = tuple(data or ())
    wanted = metric_set(chosen, extra)
    if chip is None:
        known = chips(extra).values()
        if as_json:
            _emit({"chips": [_chip(one) for one in known]})
        else:
            typer.echo("\n".join(f"{one.key:<6} {','.join(one.cc):<5} {one.products}" for one in known))
        return
    on = find(chip, extra)
    found = runs(wanted, on, dtypes or (), extra)
    if as_json:
        _emit({"chip": _chip(on), "set": wanted.key, "runs": [_run(one) for one in found]})
    else:
        typer.echo("\n".join(_lines(wanted, on, found)))


def _emit(document: dict[str, Any]) -> None:
    typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=2))


def _chip(one: "Chip") -> dict[str, Any]:
    return {
        "key": one.key,
        "compute_capability": list(one.cc),
        "products": one.products,
        "status": one.status,
        "note": one.note or None,
        "matrix_dtypes": list(one.tensor_dtypes),
    }


def _run(one: "Run") -> dict[str, Any]:
    return {
        "name": one.name,
        "metrics": list(one.metrics),
        "passes": one.passes or None,
        "passes_unknown_of": list(one.unpriced),
        "cache_control": one.cache_control,
        "not_on_this_chip": list(one.missing),
        "command": _command(one) if one.metrics else None,
    }


def _command(one: "Run") -> str:
    from tracekit.ncu import Recording, record_command, shell

    recording = Recording(
        one.metrics,
        output=f"counters-{one.name}",
        log=f"counters-{one.name}.log",
        cache_control=one.cache_control,
        nvtx_range="",
    )
    return shell(record_command(recording, _WORKLOAD))


def _lines(wanted: "MetricSet", on: "Chip", found: "tuple[Run, ...]") -> Iterator[str]:
    from tracekit.ncu import import_command, shell

    yield f"{wanted.key} on {on.key} ({on.products}): {wanted.doc}"
    yield f"metric names: {on.status}"
    if on.note:
        yield f"note: {on.note}"
    for one in found:
        yield ""
        if not one.metrics:
            yield f"run {one.name}: not measurable on this chip ({', '.join(one.missing)})"
            continue
        more = f", and those of {', '.join(one.unpriced)}" if one.unpriced else ""
        yield (
            f"run {one.name}: about {one.passes} passes a kernel{more} (computed, not observed), cache control {one.cache_control}"
        )
        yield from (f"  {name}" for name in one.metrics)
        yield f"  $ {_command(one)}"
        yield f"  $ {shell(import_command(f'counters-{one.name}.ncu-rep'))} > counters-{one.name}.csv"
