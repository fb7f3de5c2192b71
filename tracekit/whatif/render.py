"""The answer on a terminal."""

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tracekit.report.console import console, write
from tracekit.units import digits, duration, percent, plain, si
from tracekit.whatif.answer import Answer, WhatIf

_S = 1e9
_BOUND = {
    "compute": "arithmetic",
    "weights": "reading the weights",
    "kv_cache": "reading the KV cache",
    "link": "the link",
}


def print_answer(found: WhatIf) -> None:
    """Print an answer to standard output."""
    out = console()
    parts = list(_parts(found))
    if out.is_terminal:
        out.print(Group(*parts))
        return
    with out.capture() as held:
        out.print(Group(*parts))
    write("\n".join(line.rstrip() for line in held.get().splitlines()))


def _parts(found: WhatIf) -> Iterator[RenderableType]:
    yield Text(f"{plain(found.model)}, {found.phase}, on {found.device or 'the given rates'}", style="bold")
    if found.measured_s is not None:
        yield Text(f"captured: {duration(found.measured_s * _S)} a step")
    yield _figures(found)
    if found.levers:
        yield _levers(found)
    yield from (Text(f"- {plain(line)}") for line in found.assumptions)


def _figures(found: WhatIf) -> Table:
    made = Table(box=box.SIMPLE_HEAD)
    shown = [("asked", found.answer)] + (
        [("as captured", found.captured)] if found.captured is not None else []
    )
    made.add_column("")
    for title, _ in shown:
        made.add_column(title, justify="right")
    rows = [dict(_lines(answer)) for _, answer in shown if answer is not None]
    for label in rows[0]:
        made.add_row(label, *(Text(row[label]) for row in rows))
    return made


def _lines(answer: Answer) -> Iterator[tuple[str, str]]:
    memory = answer.memory
    yield "speed of light", duration(answer.floor_s * _S)
    low, high = duration(answer.expected_low_s * _S), duration(answer.expected_high_s * _S)
    yield "expected", f"{duration(answer.expected_s * _S)} ({low} to {high})"
    yield "tokens/s", f"{digits(answer.tokens_per_s)} (at most {digits(answer.floor_tokens_per_s)})"
    yield "bound by", f"{_BOUND[answer.bound_by]} ({percent(answer.bound_share)} of the floor)"
    yield "weights read", si(answer.weight_bytes, "B")
    yield "KV cache read", si(answer.kv_bytes, "B")
    yield "operations", si(answer.flops, "FLOP")
    yield "FLOP/byte", digits(answer.arithmetic_intensity)
    yield "MFU, MBU", f"{percent(answer.mfu)}, {percent(answer.mbu)}"
    yield "ridge", "-" if answer.ridge_batch is None else f"{digits(answer.ridge_batch)} tokens a step"
    fits = {None: "memory unknown", True: "fits", False: "does not fit"}[memory.fits]
    most = "" if memory.most_requests is None else f"; at most {memory.most_requests} requests of this length"
    yield "memory", f"{si(memory.weight_bytes, 'B')} and {si(memory.kv_bytes, 'B')}: {fits}{most}"


def _levers(found: WhatIf) -> Table:
    made = Table(box=box.SIMPLE_HEAD, title="Each change by itself", title_justify="left")
    for title in ("Change", "A step", "Tokens/s", "Note"):
        made.add_column(title, overflow="fold")
    for lever in sorted(found.levers, key=lambda lever: -lever.speedup):
        made.add_row(lever.lever, duration(lever.expected_s * _S), f"x{digits(lever.speedup)}", lever.note)
    return made
