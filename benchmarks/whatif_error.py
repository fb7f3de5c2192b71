"""How wrong `whatif` is: `python benchmarks/whatif_error.py FROM TO...`, folders of `tracekit collect`.

Each phase of each TO is predicted from FROM and compared with the median step of TO itself.
"""

import sys
from dataclasses import replace

from tracekit.errors import TracekitError
from tracekit.pipeline import analyze
from tracekit.whatif.answer import Seen, Target, answer
from tracekit.whatif.captured import from_capture


def seen(path: str, phase: str) -> Seen:
    result = analyze([path])
    return from_capture(result, path, phase, None, Target(result.ceilings))


def main() -> None:
    first, *others = sys.argv[1:]
    print(
        f"{'phase':8} {'batch':>5} {'queries':>7} {'cached':>6} {'measured':>10} {'predicted':>10} {'error':>7}  in interval"
    )
    for phase in ("prefill", "decode"):
        for path in (first, *others):
            try:
                start, there = seen(first, phase), seen(path, phase)
            except TracekitError as error:
                print(f"{phase:8} {error}")
                continue
            asked = replace(there.scenario, cuda_graphs=start.scenario.cuda_graphs)
            found = answer(asked, start.target, start)
            wall = there.observed.wall_s
            inside = found.expected_low_s <= wall <= found.expected_high_s
            print(
                f"{phase:8} {asked.batch:5} {asked.queries:7} {asked.kv_len:6} {1e3 * wall:7.2f} ms "
                f"{1e3 * found.expected_s:7.2f} ms {found.expected_s / wall - 1:+7.1%}  {'yes' if inside else 'no'}"
            )


if __name__ == "__main__":
    main()
