"""Makes the reference pages from the code: each function returns the Markdown that a page holds between cog's marks."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence

from tracekit import errors
from tracekit.ncu import chips, quantities, sets
from tracekit.registry import rows
from tracekit.roofline import load_devices
from tracekit.tables import PUBLIC
from tracekit.tables.codes import CODES
from tracekit.tables.words import Bottleneck, GapCause, HwStatus, Kind, Phase, WorkSource
from tracekit.units import digits

COMMANDS = (
    "collect",
    "report",
    "inspect",
    "kernels",
    "annotate",
    "devices",
    "calibrate",
    "metrics",
    "compare",
    "whatif",
)


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A Markdown table; bars inside cells are escaped."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in body]
    return "\n".join(lines)


def tables() -> str:
    """Every public table, column by column."""
    parts = []
    for one in PUBLIC:
        body = [(f"`{c.name}`", c.type, c.unit or "-", "yes" if c.null else "no", c.doc) for c in one.columns]
        parts += [f"## {one.name}", "", table(("column", "type", "unit", "null", "meaning"), body), ""]
    return "\n".join(parts).rstrip()


def words() -> str:
    """The words that text columns may hold."""
    listed = (Kind, Phase, Bottleneck, WorkSource, HwStatus, GapCause)
    return table(
        ("enumeration", "words"), [(e.__name__, ", ".join(f"`{word}`" for word in e)) for e in listed]
    )


def quality() -> str:
    """Every quality code with its meaning and what to do."""
    return table(
        ("code", "what it means", "what to do"), [(f"`{code}`", *text) for code, text in CODES.items()]
    )


def error_tree() -> str:
    """The error classes with exit code and code word."""
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.TracekitError)
    ]
    body = [
        (f"`{k.__name__}`", f"`{k.code}`", str(k.exit_code), (k.__doc__ or "").split("\n")[0]) for k in kinds
    ]
    return table(("error", "code", "exit code", "meaning"), body)


def cli() -> str:
    """The help of every command."""
    parts = []
    for name in COMMANDS:
        environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        command = [sys.executable, "-m", "tracekit", name, "--help"]
        text = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        plain = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip("\n")
        parts += [f"## tracekit {name}", "", "```text", plain, "```", ""]
    return "\n".join(parts).rstrip()


def families() -> str:
    """The rules of the kernel taxonomy, in matching order, each with an example that it must match first."""
    body = []
    for row in rows("kernels"):
        examples = row.texts("examples") or (str(row.values.get("example", "")),)
        body.append((f"`{row.key}`", f"`{examples[0][:90]}`" if examples[0] else "-"))
    return table(("rule", "example"), body)


def engines() -> str:
    """The forms of annotations, frames and file names that engines write."""
    body = [
        (
            f"`{row.key}`",
            str(row.values.get("kind", "-")),
            str(row.values.get("engine", "-")),
            str(row.values.get("versions", "-")),
            f"`{str(row.values.get('example', ''))[:90]}`",
        )
        for row in rows("engines")
    ]
    return table(("row", "kind", "engine", "versions", "example"), body)


def devices() -> str:
    """Every device: dense peaks and DRAM bandwidth."""
    body = []
    for device in load_devices():
        rates = (device.flops.get(word) for word in ("fp32", "bf16", "fp16", "fp8", "int8", "fp4"))
        cells = [digits(rate / 1e12) if rate else "-" for rate in rates]
        dram = "-" if device.dram is None else digits(device.dram / 1e9)
        body.append((device.name, device.vendor, str(device.sm_count or "-"), *cells, dram, device.status))
    head = (
        "device",
        "vendor",
        "SMs or CUs",
        "fp32",
        "bf16",
        "fp16",
        "fp8",
        "int8",
        "fp4",
        "DRAM GB/s",
        "status",
    )
    return table(head, body)


def counter_quantities() -> str:
    """What is told from counters: each quantity and the first of its formulas."""
    body = []
    for one in quantities().values():
        first = one.formulas[0]
        terms = " + ".join(
            f"`{name}`" if weight == 1 else f"{weight:g} `{name}`" for name, weight in first.terms
        )
        factors = "".join(
            [*(f" * `{name}`" for name in first.times), *(f" / `{name}`" for name in first.over)]
        )
        scale = "" if first.scale == 1 else f"{first.scale:g} * "
        body.append((f"`{one.key}`", one.unit, f"{scale}{terms}{factors}", str(len(one.formulas)), one.doc))
    return table(("quantity", "unit", "first formula", "formulas", "meaning"), body)


def counter_chips() -> str:
    """Chips, and the types whose matrix operations each counts."""
    body = [
        (
            f"`{one.key}`",
            ", ".join(one.cc) or "-",
            one.products,
            ", ".join(one.tensor_dtypes),
            one.status,
            one.note,
        )
        for one in chips().values()
    ]
    return table(
        ("chip", "compute capability", "boards", "matrix operations", "names known by", "note"), body
    )


def counter_sets() -> str:
    """What a set collects."""
    return table(("set", "what"), [(f"`{one.key}`", one.doc) for one in sets().values()])
