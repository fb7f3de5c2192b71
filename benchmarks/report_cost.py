"""What a report costs, in units of decoding the same bytes with orjson: wall time, CPU time and peak memory.

Each input is measured in turn, orjson then tracekit, several times over; every run is a process of its own, and
the median of the ratios is printed, so that a machine whose speed drifts cannot favour one of the two. CPU time is of
all processes together, and so is memory, sampled while they run. The start of the program, as a report of the
smallest sample takes it, is in both times; the column after CPU time is without it, and per event it should not
depend on the size of the trace. With `--cache`, a report that fills a new cache is compared with the next one, and the
last column is what the second takes of the first, start apart.

usage: report_cost.py TRACE [TRACE ...] [--rounds N] [--cache]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ORJSON = """
import gc, gzip, sys, time, orjson
data = open(sys.argv[1], "rb").read()
data = gzip.decompress(data) if data[:2] == b"\\x1f\\x8b" else data
gc.disable()
wall, cpu = time.perf_counter(), time.process_time()
orjson.loads(data)
print(len(data), time.perf_counter() - wall, time.process_time() - cpu)
"""


COLUMNS = ("wall x", "CPU x", "- start", "peak MB")
KEPT = ("first x", "second x", "- start")
START = Path(__file__).parents[1] / "sample_traces" / "cpu-mixed"
SAMPLE_S = 0.02
# A package that was installed has its bytecode; one that is run from a checkout writes it at its first start.
ENVIRONMENT = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Cost:
    """Of one run: seconds of wall clock and CPU, and peak resident bytes of all its processes."""

    wall: float
    cpu: float
    peak: int


def orjson_cost(path: Path) -> tuple[int, Cost]:
    """JSON bytes and the cost of decoding them, reading and decompressing left out."""
    out = subprocess.run(
        [sys.executable, "-c", ORJSON, str(path)], capture_output=True, text=True, check=True
    )
    size, wall, cpu = out.stdout.split()
    return int(size), Cost(float(wall), float(cpu), 0)


def resident(pid: int) -> int:
    """Resident bytes of a process and its children now; pages that they share are counted for each."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGESIZE") + sum(resident(int(child)) for child in children)


def tracekit_cost(path: Path, *options: str) -> Cost:
    """The whole process: start, read, all stages, JSON and Parquet written."""
    with tempfile.TemporaryDirectory() as folder:
        what = ["report", str(path), "-o", folder, "--format", "json,parquet", *options]
        began, peak = time.perf_counter(), 0
        child = subprocess.Popen(
            [sys.executable, "-m", "tracekit", *what], stdout=subprocess.DEVNULL, env=ENVIRONMENT
        )
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            peak = max(peak, resident(child.pid))
            time.sleep(SAMPLE_S)
        wall = time.perf_counter() - began
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"tracekit failed on {path}")
    # What wait4 says of a process has in it what the children that it waited for took.
    return Cost(wall, usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss * 1024))


def measure(path: Path, rounds: int) -> str:
    """One line of the table."""
    walls, cpus, apart, peaks, size = [], [], [], [], 0
    for _ in range(rounds):
        size, base = orjson_cost(path)
        cost, start = tracekit_cost(path), tracekit_cost(START)
        walls.append(cost.wall / base.wall)
        cpus.append(cost.cpu / base.cpu)
        apart.append((cost.cpu - start.cpu) / base.cpu)
        peaks.append(cost.peak)
    ratios = " ".join(f"{statistics.median(ratio):8.2f}" for ratio in (walls, cpus, apart))
    return f"{sizes(path, size)} {ratios} {max(peaks) / 1e6:8.0f}"


def measure_kept(path: Path, rounds: int) -> str:
    """One line of the table of `--cache`: a report that fills a new cache, and one that finds it filled."""
    firsts, seconds, parts, size = [], [], [], 0
    for _ in range(rounds):
        size, base = orjson_cost(path)
        with tempfile.TemporaryDirectory() as cache:
            options = ("--cache-dir", cache)
            starts = [tracekit_cost(START, *options) for _ in range(2)]
            first, second = (tracekit_cost(path, *options) for _ in range(2))
        firsts.append(first.wall / base.wall)
        seconds.append(second.wall / base.wall)
        parts.append((second.wall - starts[1].wall) / (first.wall - starts[0].wall))
    first, second, part = (statistics.median(values) for values in (firsts, seconds, parts))
    return f"{sizes(path, size)} {first:8.2f} {second:8.2f} {part:8.1%}"


def sizes(path: Path, size: int) -> str:
    return f"{path.name:28} {size / 1e6:8.0f} {path.stat().st_size / 1e6:8.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache", action="store_true", help="measure what --cache saves instead")
    options = parser.parse_args()
    columns, line = (KEPT, measure_kept) if options.cache else (COLUMNS, measure)
    head = " ".join(f"{name:>8}" for name in ("JSON MB", "disk MB", *columns))
    print(f"{'trace':28} {head}   (x = times orjson.loads of the same bytes)")
    for path in options.traces:
        print(line(path, options.rounds), flush=True)


if __name__ == "__main__":
    main()
