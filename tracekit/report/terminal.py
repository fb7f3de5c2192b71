"""The report on one screen."""

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, TextIO

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from tracekit.report import wording
from tracekit.report.console import console, write
from tracekit.report.contract import PhaseRow, Summary
from tracekit.report.result import Result
from tracekit.report.wording import brief
from tracekit.tables.ceilings import KINDS
from tracekit.units import duration, plain, si

TOP_KERNELS = 10
_TOP_FINDINGS = 5
_TOP_WARNINGS = 6
_NAME_WIDTH = 20
_OTHER_COLUMNS = 53
_OTHER_COUNTED = 60
_LEAST_CONFIDENCE = 0.5
_ROOF_WIDTH = 6
_SHORT = {"communication": "comm"}
_TEMPLATE = "at::native::"

STYLES = {
    "compute": "magenta",
    "dram": "cyan",
    "l2": "blue",
    "latency": "yellow",
    "communication": "green",
    "copy": "green",
}


def print_summary(result: Result, folder: Path | None = None, stream: TextIO | None = None) -> None:
    """Print the report of an analysis.

    Args:
        result: The analysis.
        folder: Where the files of the report were written, to be named at the end; None where none were.
        stream: Where to print; standard output by default.
    """
    out = console(stream)
    parts = [*_parts(result, out.width)]
    if folder is not None:
        parts.append(Text(f"Written to {plain(str(folder))}"))
    if out.is_terminal:
        out.print(Group(*parts))
        return
    with out.capture() as held:
        out.print(Group(*parts))
    # Rich pads each line to the width; a diff of two piped reports should not see that.
    write("\n".join(line.rstrip() for line in held.get().splitlines()), stream)


def _parts(result: Result, width: int) -> Iterator[Any]:
    summary = result.overview
    yield _line("Device", plain(wording.device_line(summary)))
    yield _line("Roofs", wording.roofs_line(summary))
    for capture in summary.captures:
        yield _line("Capture", f"{plain(capture.path)}: {capture.role} ({capture.evidence})")
    yield from _warnings(summary)
    yield Text("")
    if not summary.phases:
        yield Text("No kernel and no op: nothing to report.", style="bold yellow")
        return
    yield _phases(summary)
    for phase in summary.phases:
        yield _line(phase.phase, wording.verdict(phase))
        yield _line("", f"time by bottleneck: {wording.listed(phase.bottlenecks)}")
        yield _line("", wording.how_known(phase))
        if (launched := wording.launches(phase)) is not None:
            yield _line("", launched)
        if (recorded := wording.profiler(phase)) is not None:
            yield _line("", recorded)
        if (counted := wording.counted(phase)) is not None:
            yield _line("", counted)
    yield Text("")
    yield _kernels(result, width)
    if "counted_ns" in result.by_name and (result.by_name["counted_ns"] > 0).any():
        yield Text("")
        yield _counted(result, width)
    yield _line("Coverage", f"{wording.coverage_line(summary)} (shares of kernel time)")
    yield _line("Note", f"{wording.note(summary)} ? marks a bottleneck told with little confidence.")
    yield from _findings(summary)


def _line(head: str, text: str) -> Table:
    """A headed paragraph, wrapped under itself."""
    row = Table.grid(padding=(0, 1))
    row.add_column(width=8, no_wrap=True, style="bold")
    row.add_column(overflow="fold")
    row.add_row(Text(head), Text(text))
    return row


def _warnings(summary: Summary) -> Iterator[Table]:
    lines = list(wording.warnings(summary))
    for line in lines[:_TOP_WARNINGS]:
        yield _line("!", plain(line))
    if len(lines) > _TOP_WARNINGS:
        yield _line("!", f"and {len(lines) - _TOP_WARNINGS} more: see `quality` in --json")


def _table(*columns: str, left: int, padding: int) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, padding, 0, 0), pad_edge=False, show_edge=False, header_style="bold"
    )
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right", no_wrap=True)
    return table


def _phases(summary: Summary) -> Table:
    table = _table(
        "Phase", "Time", "Bound by", "FLOP/s", "DRAM", "FLOP/B", "MFU", "MBU", "Tok/s", left=1, padding=1
    )
    for phase in summary.phases:
        rates = _rates(phase) if wording.has_rates(phase) else ("-",) * 5
        table.add_row(
            phase.phase,
            f"{brief(phase.share)}\n{duration(phase.time_ns)}",
            _bound(phase),
            *rates,
            si(phase.tokens_per_s, "").replace(" ", ""),
        )
    return table


def _rates(phase: PhaseRow) -> tuple[str, ...]:
    """Rates and utilisations, each with its share of the measured and of the data sheet's roof below it."""
    return (
        "\n".join([si(phase.flops_per_s, "FLOP/s"), *wording.of_roofs(phase, "compute")]),
        "\n".join([si(phase.dram_bytes_per_s, "B/s"), *wording.of_roofs(phase, "dram")]),
        wording.intensity(phase.arithmetic_intensity).removesuffix(" FLOP/B"),
        _utilisation(phase, "mfu"),
        _utilisation(phase, "mbu"),
    )


def _utilisation(phase: PhaseRow, name: str) -> str:
    """MFU or MBU of the measured roofs where they are known; below it that of the data sheet, where both are."""
    both = [getattr(shares, name) for shares in (phase.of_measured, phase.of_spec) if shares is not None]
    if len(both) < len(KINDS):
        return brief(getattr(phase, name))
    return f"\n{brief(both[0])}\n{brief(both[1])}"


def _bound(phase: PhaseRow) -> Text:
    if (waiting := wording.idle_bound(phase)) is not None:
        return Text(f"{waiting[0]}\n{brief(waiting[1])} idle", style=STYLES["latency"])
    top = wording.top_bottleneck(phase)
    if top is None:
        return Text("-")
    return Text(f"{_SHORT.get(top[0], top[0])}\n{brief(top[1])}", style=STYLES.get(top[0], ""))


def _kernels(result: Result, width: int) -> Table:
    top = result.by_name.head(TOP_KERNELS)
    kinds = [kind for kind in KINDS if top[f"roof_{kind}"].notna().any()]
    # A second kind of roof takes its column from the names.
    wide = max(_NAME_WIDTH, width - _OTHER_COLUMNS) - _ROOF_WIDTH * max(0, len(kinds) - 1)
    table = _table(
        *("Kernel", "Phase", "Time", "FLOP/s", "DRAM", "FLOP/B", "Bound by"),
        *([f"%{kind[:4]}" for kind in kinds] or ["Roof"]),
        left=2,
        padding=0,
    )
    for row in top.to_dict("records"):
        word = str(row["bottleneck"])
        mark = "?" if word != "unknown" and row["bottleneck_confidence"] < _LEAST_CONFIDENCE else ""
        table.add_row(
            Text(_name(row, wide)),
            str(row["phase"])[:7],
            brief(row["share"]),
            si(row["flops_per_s"], "").replace(" ", ""),
            si(row["dram_bytes_per_s"], "B/s").replace(" ", ""),
            wording.intensity(row["arithmetic_intensity"]).removesuffix(" FLOP/B"),
            Text(f"{_SHORT.get(word, word)}{mark}", style=STYLES.get(word, "")),
            *([brief(row[f"roof_{kind}"]) for kind in kinds] or ["-"]),
        )
    return table


def _counted(result: Result, width: int) -> Table:
    """Measured beside modelled, of the kernels of most time that have counters."""
    wide = max(_NAME_WIDTH, width - _OTHER_COUNTED)
    table = _table(
        "Measured", "Phase", "Least", "DRAM", "Re-read", "Ops", "L2 hit", "Joined", left=2, padding=1
    )
    groups = result.by_name
    top = groups[groups["counted_ns"] > 0].head(TOP_KERNELS)
    for row in top.to_dict("records"):
        table.add_row(
            Text(_name(row, wide)),
            str(row["phase"])[:7],
            si(row["least_bytes"], "B").replace(" ", ""),
            si(row["moved_bytes"], "B").replace(" ", ""),
            wording.factor(row["over_least"]),
            wording.factor(row["over_flops"]),
            brief(row["l2_hit"]),
            str(row.get("hw_level", "-")),
        )
    return table


def _name(row: dict[Hashable, Any], width: int) -> str:
    """The kernel's name; PyTorch's own kernels are named after their template, so their op is shown too."""
    name, op = str(row["name"]), row["op"]
    if not isinstance(op, str) or _TEMPLATE not in name:
        return wording.display_name(name, width)
    short = plain(op.removeprefix("aten::"), width // 2)
    return f"{wording.display_name(name, width - len(short) - 1)} {short}"


def _findings(summary: Summary) -> Iterator[Any]:
    for number, finding in enumerate(summary.findings[:_TOP_FINDINGS], 1):
        won = f", up to {duration(finding.recoverable_ns)}" if finding.recoverable_ns else ""
        where = f" [{finding.phase}]" if wording.adds_phase(finding) else ""
        yield _line(
            f"Win {number}",
            plain(
                f"{finding.title}{where}{won} (confidence {finding.confidence:.2f}): {finding.evidence}. Next: {finding.next_step}."
            ),
        )
