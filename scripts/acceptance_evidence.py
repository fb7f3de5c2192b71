"""The folder of an acceptance run, read as the questions ask for it."""

import csv
import json
from functools import cached_property
from pathlib import Path
from typing import Any


class NotMeasured(Exception):  # noqa: N818 - a reason, not an error
    """Why a question has no answer."""


class Evidence:
    """The folder of a run, read as the questions ask for it."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.analysed: dict[tuple[str, ...], Any] = {}

    @cached_property
    def steps(self) -> dict[str, dict[str, Any]]:
        """What became of each step."""
        path = self.out / "steps.json"
        return {step["name"]: step for step in json.loads(path.read_text())} if path.is_file() else {}

    def need(self, step: str) -> None:
        """Go on only where a step is done."""
        # A step that only prints what another recorded has that one's reason.
        found = self.steps.get(step) or self.steps.get(step.removesuffix("-csv"))
        if found is None:
            raise NotMeasured(f"the step {step!r} did not run")
        if found["state"] != "done":
            raise NotMeasured(f"{found['name']}: {found['reason']}")

    def folders(self, step: str) -> list[Path]:
        """The finished captures of a step, also where a part of a sweep failed."""
        found = sorted(path.parent for path in (self.out / "captures" / step).rglob("run.json"))
        if not found:
            self.need(step)
            raise NotMeasured(f"{step}: it left no capture")
        return found

    def manifest(self, folder: Path) -> dict[str, Any]:
        """The manifest of a capture."""
        return json.loads((folder / "run.json").read_text())

    def analyse(self, *paths: Path) -> Any:
        """The analysis of captures, made once."""
        import tracekit

        key = tuple(map(str, paths))
        if key not in self.analysed:
            self.analysed[key] = tracekit.analyze(list(key))
        found = self.analysed[key]
        if not len(found.kernels):
            raise NotMeasured(f"{paths[0].name}: the report read no kernel")
        return found

    def probe(self, caches: str) -> dict[str, dict[str, float]]:
        """Counters of the probe's kernels by what they do; of several launches the one that took longest."""
        self.need(f"probe-{caches}-csv")
        rows = counter_rows(self.out / "probe" / f"{caches}.csv")
        if not rows:
            raise NotMeasured(f"probe-{caches}: its table has no launch")
        return by_work(rows)


def counter_rows(path: Path) -> list[dict[str, str]]:
    """The launches of a raw page; what stands before the table is passed over, and so is its row of units."""
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.startswith('"')]
    rows = list(csv.reader(lines))
    at = next((n for n, row in enumerate(rows) if row and row[0] == "ID"), None)
    if at is None:
        return []
    return [dict(zip(rows[at], row, strict=False)) for row in rows[at + 2 :]]


def by_work(rows: list[dict[str, str]]) -> dict[str, dict[str, float]]:
    """Counters by the innermost NVTX range of the probe, else in the order that the probe launches."""
    names = ("square product", "thin product", "copy", "packed halves")
    found: dict[str, dict[str, float]] = {}
    for number, row in enumerate(rows):
        text = " ".join(
            value for key, value in row.items() if "nvtx" in key.lower() or "range" in key.lower()
        )
        name = next((name for name in names if name in text), None)
        if name is None and len(rows) <= len(names):
            name = names[number]
        if name is None:
            continue
        values = {key: as_number(value) for key, value in row.items()}
        numbers = {key: value for key, value in values.items() if value is not None}
        if numbers.get(_TIME, 0.0) >= found.get(name, {}).get(_TIME, 0.0):
            found[name] = numbers
    return found


_TIME = "gpu__time_duration.sum"


def as_number(text: str) -> float | None:
    """A cell as a number; None where it is none."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
