"""The report for a pull request: at most `MAX_LINES` lines of GitHub Markdown."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from tracekit.report import wording
from tracekit.report.contract import PhaseRow, Summary
from tracekit.report.result import Result
from tracekit.report.wording import brief
from tracekit.tables.ceilings import KINDS
from tracekit.units import duration, plain, si

MAX_LINES = 60
_TOP_KERNELS = 10
_TOP_FINDINGS = 5
_TOP_WARNINGS = 5
_NAME_WIDTH = 60
# Characters that GitHub reads as markup, mentions or table borders.
_ESCAPES = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>#|~$"} | {"&": "&amp;", "@": "&#64;"})


def render_markdown(result: Result, artefacts: Iterable[str] = ()) -> str:
    """The report as Markdown.

    Args:
        result: The analysis.
        artefacts: Names of files beside it, to link to; pictures are shown.
    """
    return "\n".join(_lines(result, tuple(artefacts))) + "\n"


def escape(text: str, width: int | None = None) -> str:
    """A text that GitHub shows as it is, on one line."""
    return plain(text, width).translate(_ESCAPES)


def _lines(result: Result, artefacts: tuple[str, ...]) -> Iterator[str]:
    summary = result.overview
    yield "## tracekit report"
    yield ""
    yield f"**Device:** {escape(wording.device_line(summary))}. **Roofs:** {escape(wording.roofs_line(summary))}."
    yield f"**Coverage** (shares of kernel time): {escape(wording.coverage_line(summary))}."
    yield from _section("", [*_warnings(summary)])
    yield from _section("### Verdict", [*_phases(summary)])
    yield from _section("", [*_counted(summary)])
    yield from _section("### What could be won", [*_findings(summary)])
    yield from _section("### Top kernels", [*_kernels(result)])
    yield from _section("", [f"![Roofline]({name})" for name in artefacts if name.endswith(".png")])
    yield ""
    yield wording.note(summary)
    if artefacts:
        yield f"Artefacts: {', '.join(f'[{escape(name)}]({name})' for name in artefacts)}"


def _warnings(summary: Summary) -> Iterator[str]:
    lines = list(wording.warnings(summary))
    for line in lines[:_TOP_WARNINGS]:
        yield f"> :warning: {escape(line, 300)}  "
    if len(lines) > _TOP_WARNINGS:
        yield f"> and {len(lines) - _TOP_WARNINGS} more: see `quality` in summary.json"


def _counted(summary: Summary) -> Iterator[str]:
    """A line a phase that has hardware counters, and one where the profiler's part is known."""
    for phase in summary.phases:
        recorded = wording.profiler(phase)
        if recorded is not None:
            yield f"{phase.phase}: {escape(recorded)}.  "
        said = wording.counted(phase)
        if said is not None:
            yield f"{phase.phase}: {escape(said)}.  "


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield from ("", title, "", *lines) if title else ("", *lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _phases(summary: Summary) -> Iterator[str]:
    if not summary.phases:
        yield "No kernel and no op: nothing to report."
        return
    yield _row("Phase", "Time", "What bounds it", "FLOP/s", "DRAM", "FLOP/byte", "MFU", "MBU")
    yield _row("---", "--:", "---", "--:", "--:", "--:", "--:", "--:")
    for phase in summary.phases:
        shown = wording.has_rates(phase)
        yield _row(
            phase.phase,
            f"{brief(phase.share)}, {duration(phase.time_ns)}",
            wording.verdict(phase).removeprefix("bound "),
            _with_roofs(si(phase.flops_per_s, "FLOP/s"), phase, "compute") if shown else "-",
            _with_roofs(si(phase.dram_bytes_per_s, "B/s"), phase, "dram") if shown else "-",
            wording.intensity(phase.arithmetic_intensity).removesuffix(" FLOP/B") if shown else "-",
            _utilisation(phase, "mfu") if shown else "-",
            _utilisation(phase, "mbu") if shown else "-",
        )


def _with_roofs(rate: str, phase: PhaseRow, name: str) -> str:
    found = wording.of_roofs(phase, name)
    return f"{rate} ({', '.join(found)})" if found else rate


def _utilisation(phase: PhaseRow, name: str) -> str:
    """MFU or MBU; where two kinds of roofs are known, of each."""
    found = wording.of_roofs(phase, name)
    return ", ".join(found) if len(found) > 1 else brief(getattr(phase, name))


def _findings(summary: Summary) -> Iterator[str]:
    for number, finding in enumerate(summary.findings[:_TOP_FINDINGS], 1):
        won = f", up to {duration(finding.recoverable_ns)}" if finding.recoverable_ns else ""
        where = f" in {escape(finding.phase)}" if wording.adds_phase(finding) else ""
        yield (
            f"{number}. **{escape(finding.title, 120)}**{where}{won} (confidence {finding.confidence:.2f}): "
            f"{escape(finding.evidence, 300)}. Next: {escape(finding.next_step, 300)}."
        )


def _kernels(result: Result) -> Iterator[str]:
    top = result.by_name.head(_TOP_KERNELS)
    if top.empty:
        return
    kinds = [kind for kind in KINDS if top[f"roof_{kind}"].notna().any()]
    measured = ("Measured DRAM", "Re-read", "L2 hits") if "counted_ns" in top else ()
    yield _row(
        *("Kernel", "Phase", "Time", "Calls", "FLOP/s", "DRAM", "FLOP/byte", "Bottleneck"),
        *(f"Of {kind} roof" for kind in kinds),
        *measured,
    )
    numbers = len(kinds) + len(measured)
    yield _row("---", "---", "--:", "--:", "--:", "--:", "--:", "---", *["--:"] * numbers)
    for row in top.to_dict("records"):
        yield _row(
            escape(wording.display_name(str(row["name"]), _NAME_WIDTH)),
            str(row["phase"]),
            brief(row["share"]),
            str(row["count"]),
            si(row["flops_per_s"], "FLOP/s"),
            si(row["dram_bytes_per_s"], "B/s"),
            wording.intensity(row["arithmetic_intensity"]).removesuffix(" FLOP/B"),
            f"{row['bottleneck']} ({row['bottleneck_confidence']:.2f})",
            *(brief(row[f"roof_{kind}"]) for kind in kinds),
            *(_measured(row) if measured else ()),
        )


def _measured(row: Mapping[Hashable, Any]) -> tuple[str, ...]:
    """What counters say of a group of kernels; the status where they say nothing."""
    if not row["counted_ns"]:
        return (wording.status(str(row["hw_status"])), "-", "-")
    return (si(row["moved_bytes"], "B"), wording.factor(row["over_least"]), brief(row["l2_hit"]))
