"""The appendix: every formula and every default in force."""

from collections.abc import Iterator

from tracekit.classify.analytic import ABOVE, CLEAR_MARGIN, HIGH, LIKELY, LOW, SHORT_NS, SPARSE
from tracekit.classify.case import HOST_BOUND
from tracekit.classify.gaps import AFTER_SYNC_NS
from tracekit.classify.launches import QUEUED_NS
from tracekit.classify.signals import DEFAULT_CPU_FLOOR_NS
from tracekit.phase.resolve import LIKELY as LIKELY_PHASE
from tracekit.report.wording import LEAST_KNOWN
from tracekit.roofline.apply import MIN_COVERAGE
from tracekit.tables.ceilings import Ceilings
from tracekit.units import digits, duration, percent

FORMULAS = (
    (
        "kernel time",
        "exclusive: each instant of a device belongs to the kernel that started first; op self time on a CPU",
    ),
    ("wall time", "sum of the step windows; the span of the kernels where there are no steps"),
    ("share", "time over all exclusive kernel time of the report"),
    (
        "FLOP/s, DRAM bandwidth",
        "sum of work over sum of time, over the kernels whose FLOPs and bytes are both known",
    ),
    (
        "FLOPs",
        "useful work from recorded dimensions; a multiply-add is two; causal attention counts the lower triangle",
    ),
    (
        "bytes",
        "each operand once: the least traffic possible, hence a lower bound; measured bytes where counters gave them",
    ),
    ("arithmetic intensity", "FLOPs over modelled bytes [FLOP/byte]"),
    ("bound", "max over the roofs of work over roof (Williams, Waterman, Patterson 2009, as times)"),
    ("% of roof", "time at the roof over time taken; always of the roof named (measured or spec)"),
    ("ridge point", "compute roof over DRAM roof [FLOP/byte]"),
    ("MFU", "sum over dtypes of FLOPs over peak, over wall time (Chowdhery et al. 2022)"),
    ("MBU", "weight and KV bytes over (wall time times DRAM bandwidth) (Databricks 2023)"),
    ("coverage", "shares of kernel time that are linked, phase-labelled, modelled and classified"),
)


def defaults(ceilings: Ceilings) -> Iterator[tuple[str, str]]:
    """Every threshold that a figure or a class of this report hangs on, with its value.

    Args:
        ceilings: Those of the device.
    """
    yield (
        "bound by a roof",
        f"from {percent(HIGH)} of it, likely from {percent(LIKELY)}; below {percent(LOW)} latency where grid or duration say so, else unknown; over {percent(ABOVE)} the model of its work is doubted",
    )
    yield "side of the ridge", f"clear where intensity is {digits(2**CLEAR_MARGIN)} times off the ridge point"
    yield (
        "latency",
        f"kernels under {duration(SHORT_NS)}, or with a grid of less than {percent(SPARSE)} of the SMs",
    )
    yield from _reached(ceilings)
    if ceilings.launch_floor_ns is None:
        yield "an op's own cost on a CPU", f"{duration(DEFAULT_CPU_FLOOR_NS)}, where it was not measured"
    else:
        yield "time of an empty kernel or op", duration(ceilings.launch_floor_ns)
    yield "host-bound step", f"idle because of the host for more than {percent(HOST_BOUND)} of its window"
    yield (
        "late launch",
        f"more than {duration(AFTER_SYNC_NS)} after a synchronisation; a kernel that waited more than {duration(QUEUED_NS)} after its launch was queued",
    )
    yield "phase", f"unknown where it is told with a confidence under {LIKELY_PHASE:.2f}"
    yield (
        "figures withheld",
        f"rates of a phase where less than {percent(LEAST_KNOWN)} of its time has known work; MFU and MBU of a step where less than {percent(MIN_COVERAGE)} has",
    )


def _reached(ceilings: Ceilings) -> Iterator[tuple[str, str]]:
    """What good kernels are taken to reach of a data sheet's roof."""
    roofs = {**ceilings.peaks, "dram": ceilings.dram}
    given = {word: roof for word, roof in roofs.items() if roof.measured is None and roof.spec is not None}
    shares = ", ".join(
        f"{word} {percent(roof.reach)}{'' if roof.reach_known else ' (usual)'}"
        for word, roof in sorted(given.items())
    )
    if shares:
        yield "achievable roof", f"share of the data sheet's that good kernels reach: {shares}"
