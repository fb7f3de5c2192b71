"""Make a Kineto trace of any size by repeating a real or collected one.

Each repetition is shifted in time by the span of the original, and its correlation ids, external ids and
flow ids are moved to a range of their own, so that every join still holds.

usage: make_trace.py SOURCE OUTPUT --megabytes N
"""

import argparse
import gzip
import io
from pathlib import Path
from typing import IO, Any

import orjson

IDS = ("correlation", "External id", "external id", "Ev Idx", "Python id", "Python parent id")


def load(path: Path) -> dict[str, Any]:
    """The document, from plain or gzipped JSON."""
    data = path.read_bytes()
    document = orjson.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    return document if isinstance(document, dict) else {"traceEvents": document}


def span(events: list[dict[str, Any]]) -> float:
    """Time from the first start to the last end of complete events, in microseconds."""
    timed = [
        (float(e["ts"]), float(e["ts"]) + float(e["dur"]))
        for e in events
        if e.get("ph") == "X" and "dur" in e and e.get("cat") != "Trace"
    ]
    return max(end for _, end in timed) - min(start for start, _ in timed)


def moved(event: dict[str, Any], shift: float, offset: int) -> bytes:
    """One event of a repetition, indented as Kineto writes it."""
    out = dict(event)
    if "ts" in out:
        out["ts"] = round(float(out["ts"]) + shift, 3)
    if out.get("ph") in {"s", "f", "t"} and isinstance(out.get("id"), int):
        out["id"] += offset
    args = out.get("args")
    if isinstance(args, dict):
        out["args"] = {
            key: value + offset if key in IDS and isinstance(value, int) and value > 0 else value
            for key, value in args.items()
        }
    return orjson.dumps(out, option=orjson.OPT_INDENT_2).replace(b"\n", b"\n  ")


def write(document: dict[str, Any], target: IO[bytes], size: int) -> int:
    """Write repetitions until `size` bytes are there; returns how many."""
    events = document.pop("traceEvents")
    step = span(events) + 1000.0
    ids = [
        value
        for e in events
        for key, value in (e.get("args") or {}).items()
        if key in IDS and isinstance(value, int)
    ]
    stride = max(ids, default=0) + 1
    head = orjson.dumps(document, option=orjson.OPT_INDENT_2)[:-2]
    target.write(head + b',\n  "traceEvents": [\n  ')
    written = repetitions = 0
    while written < size:
        block = b",\n  ".join(moved(event, repetitions * step, repetitions * stride) for event in events)
        target.write((b",\n  " if repetitions else b"") + block)
        written += len(block)
        repetitions += 1
    target.write(b"\n  ]\n}\n")
    return repetitions


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--megabytes", type=float, default=250.0)
    options = parser.parse_args()
    with options.output.open("wb") as raw:
        target: IO[bytes] = (
            gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=4)
            if options.output.suffix == ".gz"
            else io.BufferedWriter(raw)
        )  # type: ignore[arg-type,assignment]
        with target:
            repetitions = write(load(options.source), target, int(options.megabytes * 1e6))
    print(
        f"{options.output}: {repetitions} repetitions, {options.output.stat().st_size / 1e6:.0f} MB on disk"
    )


if __name__ == "__main__":
    main()
