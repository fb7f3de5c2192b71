"""The answer on a terminal, as Markdown, as HTML, and as files."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from rich.text import Text

from tracekit.report.blocks import Block, as_markdown, as_page, print_blocks
from tracekit.report.whole import write_documents
from tracekit.units import digits, duration, percent, plain, si
from tracekit.whatif.answer import Answer, WhatIf

_S = 1e9
FORMATS = ("html", "md", "json")
_BOUND = {
    "compute": "arithmetic",
    "weights": "reading the weights",
    "kv_cache": "reading the KV cache",
    "link": "the link",
}


def print_answer(found: WhatIf) -> None:
    """Print an answer to standard output."""
    before = [Text(_heading(found), style="bold"), *(Text(line) for line in _captured(found))]
    after = [Text(f"- {plain(line)}") for line in found.assumptions]
    print_blocks(_blocks(found), before, after, wide=False)


def write_answer(found: WhatIf, folder: Path, formats: Iterable[str] = FORMATS) -> None:
    """Write `whatif.html`, `whatif.md` and `whatif.json`.

    Raises:
        CaptureError: The folder cannot be written to.
    """
    write_documents(folder, {f"whatif.{word}": _content(found, word) for word in formats}, "answer")


def _content(found: WhatIf, word: str) -> bytes:
    if word == "json":
        return (json.dumps(msgspec.to_builtins(found), indent=2, allow_nan=False) + "\n").encode()
    make = as_page if word == "html" else as_markdown
    return make(
        f"tracekit whatif: {_heading(found)}", [*_captured(found), *found.assumptions], [*_blocks(found)]
    ).encode()


def _heading(found: WhatIf) -> str:
    return f"{plain(found.model)}, {found.phase}, on {found.device or 'the given rates'}"


def _captured(found: WhatIf) -> Iterator[str]:
    if found.measured_s is not None:
        yield f"captured: {duration(found.measured_s * _S)} a step"


def _blocks(found: WhatIf) -> Iterator[Block]:
    shown = [("asked", found.answer)]
    if found.captured is not None:
        shown.append(("as captured", found.captured))
    columns = [dict(_lines(answer)) for _, answer in shown]
    yield Block(
        "A step",
        ("", *(title for title, _ in shown)),
        tuple((label, *(column[label] for column in columns)) for label in columns[0]),
    )
    groups = found.answer.groups_s
    yield Block(
        "Expected time by group of kernels",
        ("Group", "Time", "Share"),
        tuple(
            (group.replace("_", " "), duration(time * _S), percent(time / sum(groups.values())))
            for group, time in sorted(groups.items(), key=lambda item: -item[1])
            if time > 0
        ),
    )
    yield Block(
        "Each change by itself",
        ("Change", "A step", "Tokens/s", "Note"),
        tuple(
            (lever.lever, duration(lever.expected_s * _S), f"x{digits(lever.speedup)}", lever.note)
            for lever in sorted(found.levers, key=lambda lever: -lever.speedup)
        ),
    )


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
