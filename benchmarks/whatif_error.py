"""How wrong `whatif` is: `python benchmarks/whatif_error.py [--fastest SHARE] FOLDER...`, folders of `tracekit collect`.

Each phase of each folder is predicted from each other folder, and compared with the steps of the folder itself. On a
machine that others use too, `--fastest 0.25` looks at the fastest quarter of each phase's steps, in both.
"""

import argparse
import itertools
from dataclasses import replace

import numpy as np

from tracekit.errors import TracekitError
from tracekit.pipeline import analyze
from tracekit.report.result import Result
from tracekit.whatif.answer import Seen, Target, answer
from tracekit.whatif.captured import from_capture

PHASES = ("prefill", "decode")
Row = tuple[float, float, bool]


def seen(path: str, result: Result) -> dict[str, Seen]:
    """What each phase of a folder ran, for the phases that it has."""
    found = {}
    for phase in PHASES:
        try:
            found[phase] = from_capture(result, path, phase, None, Target(result.ceilings))
        except TracekitError as error:
            print(f"{phase:8} {error}")
    return found


def fastest(result: Result, share: float) -> Result:
    """The result with the fastest steps of each phase alone."""
    steps = result.steps
    rank = steps.groupby(steps["phase"].astype(object))["dur_ns"].rank(method="first", pct=True)
    count = steps.groupby(steps["phase"].astype(object))["dur_ns"].transform("size")
    return replace(result, steps=steps[(rank <= np.maximum(share, 1 / count)).to_numpy(dtype=bool)])


def predicted(start: Seen, there: Seen) -> Row:
    """Error of a prediction, distance of the two steps' floors [octaves], and whether the interval holds the truth."""
    asked = replace(there.scenario, cuda_graphs=start.scenario.cuda_graphs)
    found = answer(asked, start.target, start)
    own = answer(start.scenario, start.target, start)
    wall = there.observed.wall_s
    inside = found.expected_low_s <= wall <= found.expected_high_s
    print(
        f"{asked.phase:8} {start.scenario.batch:4} {start.scenario.keys:6} to {asked.batch:4} {asked.keys:6} "
        f"{1e3 * wall:9.2f} ms {1e3 * found.expected_s:9.2f} ms {found.expected_s / wall - 1:+7.1%}  {'yes' if inside else 'no'}"
    )
    return found.expected_s / wall - 1, abs(np.log2(found.floor_s / own.floor_s)), inside


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--fastest", type=float, default=1.0)
    asked = parser.parse_args()
    folders = [seen(path, fastest(analyze([path]), asked.fastest)) for path in asked.folders]
    print(
        f"{'phase':8} {'from batch, keys':>11} {'to':>14} {'measured':>11} {'predicted':>12} {'error':>7}  in interval"
    )
    for phase in PHASES:
        pairs = itertools.permutations([folder[phase] for folder in folders if phase in folder], 2)
        rows = [predicted(start, there) for start, there in pairs if start.scenario != there.scenario]
        if rows:
            errors = np.abs([row[0] for row in rows])
            near = errors[[row[1] <= 1 for row in rows]]
            print(
                f"{phase}: {len(rows)} predictions, median error {np.median(errors):.1%}, largest {errors.max():.1%}, "
                f"{np.mean([row[2] for row in rows]):.0%} in their interval"
                + (
                    f"; within a factor of two of the floor: median {np.median(near):.1%}"
                    if len(near)
                    else ""
                )
            )


if __name__ == "__main__":
    main()
