"""The report for a pull request: at most `MAX_LINES` lines of GitHub Markdown."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from tracekit.report import wording
from tracekit.report.contract import Summary
from tracekit.report.result import Result
from tracekit.report.wording import brief
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
    """A line a phase that has hardware counters."""
    for phase in summary.phases:
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
    roof = wording.roof_word(summary)
    for phase in summary.phases:
        shown = wording.has_rates(phase)
        yield _row(
            phase.phase,
            f"{brief(phase.share)}, {duration(phase.time_ns)}",
            wording.verdict(phase).removeprefix("bound "),
            _with_roof(si(phase.flops_per_s, "FLOP/s"), phase.compute_roof_share, roof) if shown else "-",
            _with_roof(si(phase.dram_bytes_per_s, "B/s"), phase.dram_roof_share, roof) if shown else "-",
            wording.intensity(phase.arithmetic_intensity).removesuffix(" FLOP/B") if shown else "-",
            brief(phase.mfu) if shown else "-",
            brief(phase.mbu) if shown else "-",
        )


def _with_roof(rate: str, share: float | None, roof: str) -> str:
    return rate if share is None else f"{rate} ({wording.of_roof(share, roof)})"


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
    measured = ("Measured DRAM", "Re-read", "L2 hits") if "counted_ns" in top else ()
    yield _row(
        *("Kernel", "Phase", "Time", "Calls", "FLOP/s", "DRAM", "FLOP/byte", "Bottleneck", "Of roof"),
        *measured,
    )
    yield _row("---", "---", "--:", "--:", "--:", "--:", "--:", "---", "--:", *("--:" for _ in measured))
    share = top[["s_compute", "s_dram"]].max(axis=1)
    for row, reached in zip(top.to_dict("records"), share, strict=True):
        yield _row(
            escape(wording.display_name(str(row["name"]), _NAME_WIDTH)),
            str(row["phase"]),
            brief(row["share"]),
            str(row["count"]),
            si(row["flops_per_s"], "FLOP/s"),
            si(row["dram_bytes_per_s"], "B/s"),
            wording.intensity(row["arithmetic_intensity"]).removesuffix(" FLOP/B"),
            f"{row['bottleneck']} ({row['bottleneck_confidence']:.2f})",
            brief(reached),
            *(_measured(row) if measured else ()),
        )


def _measured(row: Mapping[Hashable, Any]) -> tuple[str, ...]:
    """What counters say of a group of kernels; the status where they say nothing."""
    if not row["counted_ns"]:
        return (wording.status(str(row["hw_status"])), "-", "-")
    return (si(row["moved_bytes"], "B"), wording.factor(row["over_least"]), brief(row["l2_hit"]))
