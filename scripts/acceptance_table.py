"""The table of an acceptance run: each open question, its answer with unit and how it was got, or why there is none."""

import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from acceptance_evidence import Evidence, NotMeasured, as_number, counter_rows

SIDE, LANES, TURNS = 4096, 1 << 22, 64  # as in acceptance_probe.py
COPIED = 2 * 4 * (1 << 28)
NS_PER_S = 1e9
SMALLEST = 0.01


@dataclass(frozen=True, slots=True)
class Answer:
    """One row."""

    question: str
    value: str
    unit: str
    how: str


def tensor_operations(seen: Evidence) -> Iterator[Answer]:
    """sm__ops_path_tensor_* against 2MNK."""
    found = seen.probe("all").get("square product", {})
    counted = [value for name, value in found.items() if name.startswith("sm__ops_path_tensor")]
    if not counted:
        raise NotMeasured("the probe's product has no tensor counter")
    yield Answer(
        "sm__ops_path_tensor_* over 2MNK, bf16",
        f"{sum(counted) / (2.0 * SIDE**3):.4f}",
        "ratio",
        f"ncu on one {SIDE}x{SIDE}x{SIDE} torch product",
    )


def cache_control(seen: Evidence) -> Iterator[Answer]:
    """DRAM bytes with caches as they are against caches flushed."""
    none, flushed = seen.probe("none"), seen.probe("all")
    known = {
        "square product": 3.0 * 2 * SIDE**2,
        "thin product": 2.0 * (SIDE**2 + 2 * SIDE),
        "copy": float(COPIED),
    }
    for name, least in known.items():
        one, other = (found.get(name, {}).get("dram__bytes.sum") for found in (none, flushed))
        if one is not None and other is not None:
            yield Answer(
                f"DRAM bytes over the least, {name}",
                f"{one / least:.3f} / {other / least:.3f}",
                "none / all",
                "dram__bytes.sum, --cache-control none and all, one pass group",
            )


def packed_halves(seen: Evidence) -> Iterator[Answer]:
    """The factor of HFMA2."""
    found = seen.probe("all").get("packed halves")
    if not found:
        raise NotMeasured("the probe has no kernel of packed halves: Triton is not installed")
    counted = found.get("smsp__sass_thread_inst_executed_op_hfma_pred_on.sum")
    if not counted:
        raise NotMeasured("the half counter is 0: the compiler chose other instructions")
    yield Answer(
        "multiply-adds of one counted HFMA (2 if packed ones count once)",
        f"{LANES * TURNS / counted:.3f}",
        "FMA / count",
        f"Triton kernel of {LANES} x {TURNS} fp16 multiply-adds",
    )


def metric_sets(seen: Evidence) -> Iterator[Answer]:
    """Passes and time of the counter runs."""
    folder = seen.folders("counted")[0]
    notes = [note for note in seen.manifest(folder)["notes"] if note.startswith("counters (")]
    if not notes:
        raise NotMeasured("the capture has no counters")
    for note in notes:
        yield Answer("launches and passes of a counter run", note.partition(": ")[2], "", "run.json")
    seconds = seen.steps["counted"]["seconds"]
    plain = sum(rate["step_ns"] for rate in seen.manifest(folder)["rates"]) / NS_PER_S
    yield Answer(
        "time of the counted capture",
        f"{seconds:.0f}",
        "s",
        f"all runs; a step of each phase takes {plain:.4f} s",
    )


def nvtx_columns(seen: Evidence) -> Iterator[Answer]:
    """Names of NVTX columns in a raw CSV."""
    seen.need("probe-none-csv")
    rows = counter_rows(seen.out / "probe" / "none.csv")
    names = [
        name for name in (rows[0] if rows else {}) if "nvtx" in name.lower() or "push/pop" in name.lower()
    ]
    yield Answer(
        "NVTX columns of a raw page",
        "; ".join(names[:4]) or "none",
        f"{len(names)} columns",
        "ncu --nvtx, --import --csv --page raw",
    )


def clocks(seen: Evidence) -> Iterator[Answer]:
    """SM clock of profiled kernels under --clock-control none."""
    seen.need("probe-none-csv")
    values = [
        value
        for row in counter_rows(seen.out / "probe" / "none.csv")
        if (value := as_number(row.get("sm__cycles_elapsed.avg.per_second", ""))) is not None
    ]
    if not values:
        raise NotMeasured("the probe has no SM clock")
    yield Answer(
        "SM clock under --clock-control none",
        f"{min(values) / 1e6:.0f} / {statistics.median(values) / 1e6:.0f} / {max(values) / 1e6:.0f}",
        "MHz, least / median / most",
        f"sm__cycles_elapsed.avg.per_second of {len(values)} launches",
    )


def re_reads(seen: Evidence) -> Iterator[Answer]:
    """Measured DRAM bytes over the modelled least, by phase and family."""
    kernels = seen.analyse(seen.folders("counted")[0]).kernels
    both = kernels[kernels["dram_bytes_hw"].notna() & (kernels["dram_bytes"] > 0)]
    if both.empty:
        raise NotMeasured("no kernel has both a model and DRAM counters")
    sums = both.groupby(["phase", "family"], observed=True)[["dram_bytes", "dram_bytes_hw", "dur_ns"]].sum()
    for (phase, family), row in sums.sort_values("dur_ns", ascending=False).iterrows():
        if phase in {"prefill", "decode"}:
            yield Answer(
                f"re-read factor, {phase}, {family}",
                f"{row['dram_bytes_hw'] / row['dram_bytes']:.3f}",
                "measured / modelled",
                f"dram__bytes.sum over minimum traffic, {row['dur_ns'] / 1e6:.2f} ms of kernels",
            )


def classes(seen: Evidence) -> Iterator[Answer]:
    """The bottleneck by analysis alone against that by counters, by time."""
    folder = seen.folders("counted")[0]
    counted = seen.analyse(folder).kernels
    uncounted = seen.out / ".tmp" / "uncounted"
    shutil.copytree(folder, uncounted, dirs_exist_ok=True, ignore=shutil.ignore_patterns("counters*"))
    alone = seen.analyse(uncounted).kernels
    if len(alone) != len(counted):
        raise NotMeasured("the two analyses have different kernels")
    measured = counted["hw_status"].astype(str).eq("measured").to_numpy()
    if not measured.any():
        raise NotMeasured("no kernel has counters")
    same = (alone["bottleneck"].astype(str).to_numpy() == counted["bottleneck"].astype(str).to_numpy())[
        measured
    ]
    time = counted["dur_ns"].to_numpy()[measured]
    yield Answer(
        "analytic class equals counter class",
        f"{100 * time[same].sum() / time.sum():.1f}",
        "% of the time",
        f"{int(measured.sum())} kernels with counters",
    )


def roofs(seen: Evidence) -> Iterator[Answer]:
    """Measured roofs against the data sheet's."""
    seen.need("calibrate")
    measured = json.loads((seen.out / "calibration" / "ceilings.json").read_text())
    name = measured["device"]["name"]
    said = subprocess.run(
        [sys.executable, "-m", "tracekit", "devices", name, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = json.loads(said.stdout)["devices"] if said.returncode == 0 else []
    sheet = next((row for row in rows if name in row["names"]), {})
    spec = {word: _sheet(sheet, word) for word in (*measured["peaks"], "dram")}
    dram = max(measured["dram"]["copy_bytes_per_s"], measured["dram"]["read_bytes_per_s"])
    figures = {word: peak["flops_per_s"] for word, peak in measured["peaks"].items()} | {"dram": dram}
    for word, value in figures.items():
        unit, scale = ("TB/s", 1e12) if word == "dram" else ("TFLOP/s", 1e12)
        of = f" = {100 * value / spec[word]:.1f} % of spec" if spec[word] else " (no data sheet)"
        yield Answer(f"measured roof, {word}", f"{value / scale:.4g}{of}", unit, f"calibrate on {name}")


def _sheet(row: dict[str, Any], word: str) -> float | None:
    """A data sheet's figure; of fp64 the matrix units', which a product uses where there are any."""
    if word == "dram":
        return row.get("dram_bytes_per_s")
    peaks = row.get("flops_per_s", {})
    return peaks.get(f"{word}_tensor") or peaks.get(word)


def predictions(seen: Evidence) -> Iterator[Answer]:
    """What whatif expects against the measured step, at another batch and length."""
    base = min(seen.folders("eager"), key=lambda folder: seen.manifest(folder)["workload"]["kv_len"])
    for folder in (*seen.folders("batch"), max(seen.folders("eager"))):
        document = seen.manifest(folder)
        work = document["workload"]
        for rate in document["rates"]:
            if rate["phase"] != "decode" or folder == base:
                continue
            expected = expectation(base, work["batch"], work["kv_len"])
            yield Answer(
                f"whatif over measured, decode b{work['batch']} kv{work['kv_len']}",
                f"{expected * NS_PER_S / rate['step_ns']:.3f}",
                "expected / measured",
                f"from {base.name}: {expected * 1e3:.3f} ms against {rate['step_ns'] / 1e6:.3f} ms unprofiled",
            )


def expectation(base: Path, batch: int, depth: int) -> float:
    """Seconds that whatif expects of a decode step."""
    words = [
        "whatif",
        str(base),
        "--phase",
        "decode",
        "--batch",
        str(batch),
        "--kv-len",
        str(depth),
        "--json",
    ]
    said = subprocess.run(
        [sys.executable, "-m", "tracekit", *words], capture_output=True, text=True, check=False
    )
    if said.returncode:
        raise NotMeasured("whatif: " + (said.stderr.strip().splitlines() or ["no answer"])[0])
    return float(json.loads(said.stdout)["expected_s"])


def overhead(seen: Evidence) -> Iterator[Answer]:
    """What the profiler adds to a decode step, eager and as a graph."""
    for step in ("eager", "graphs"):
        try:
            folders = seen.folders(step)
        except NotMeasured as reason:
            yield Answer(f"profiler overhead, decode, {step}", f"not measured: {reason}", "", "")
            continue
        for folder in folders:
            document = seen.manifest(folder)
            work = document["workload"]
            for rate in document["rates"]:
                if rate["phase"] == "decode" and rate["timing_overhead"] is not None:
                    yield Answer(
                        f"profiler overhead, decode, {step}, b{work['batch']} kv{work['kv_len']}",
                        f"{100 * rate['timing_overhead']:+.1f}",
                        "%",
                        f"timing pass over an unprofiled step of {rate['step_ns'] / 1e6:.3f} ms",
                    )


def claims(seen: Evidence) -> Iterator[Answer]:
    """Prefill compute-bound, decode DRAM-bound: the share of time that says so, and what says otherwise."""
    for step in ("eager", "batch", "graphs", "flash"):
        try:
            folders = seen.folders(step)
        except NotMeasured as reason:
            yield Answer(f"bound by, {step}", f"not measured: {reason}", "", "")
            continue
        for folder in folders:
            for row in seen.analyse(folder).summary["phases"]:
                if row["phase"] in {"prefill", "decode"}:
                    yield _claim(step, folder, row)


def _claim(step: str, folder: Path, row: dict[str, Any]) -> Answer:
    shares = sorted(row["bottlenecks"].items(), key=lambda item: -item[1])
    claimed = "compute" if row["phase"] == "prefill" else "dram"
    rest = ", ".join(
        f"{word} {100 * share:.0f} %" for word, share in shares if word != claimed and share >= SMALLEST
    )
    return Answer(
        f"{row['phase']} bound by {claimed}, {step} {folder.name}",
        f"{100 * row['bottlenecks'].get(claimed, 0.0):.1f}",
        "% of the time",
        f"work known {100 * row['work_known']:.1f} %; else {rest or 'nothing'}",
    )


def exported(seen: Evidence) -> Iterator[Answer]:
    """Whether an Nsight Systems export is read, and what its report knows."""
    seen.need("nsys-report")
    document = json.loads((seen.out / "nsys" / "report.json").read_text())
    coverage = document["coverage"]
    yield Answer(
        "Nsight Systems export read",
        f"{100 * coverage['phase_known']:.1f} / {100 * coverage['work_known']:.1f}",
        "% of the time, phase known / work known",
        "nsys profile of eager prefill and decode, exported to SQLite, report with --model",
    )


QUESTIONS: dict[str, Callable[[Evidence], Iterator[Answer]]] = {
    "tensor operations over 2MNK": tensor_operations,
    "DRAM bytes, cache control none against all": cache_control,
    "HFMA2 factor": packed_halves,
    "passes and overhead of a metric set": metric_sets,
    "NVTX columns": nvtx_columns,
    "clocks under --clock-control none": clocks,
    "re-read factor by family": re_reads,
    "analytic class against counter class": classes,
    "measured roofs against spec": roofs,
    "whatif against measurement": predictions,
    "profiler overhead": overhead,
    "prefill compute-bound, decode DRAM-bound": claims,
    "Nsight Systems export": exported,
}


def answers(seen: Evidence) -> list[Answer]:
    """A row or more for each question; why there is none where it has no answer."""
    found: list[Answer] = []
    for question, ask in QUESTIONS.items():
        got: list[Answer] = []
        try:
            got.extend(ask(seen))
        except NotMeasured as reason:
            got.append(Answer(question, f"not measured: {reason}", "", ""))
        except (OSError, ValueError, KeyError, TypeError) as error:
            # A folder that lacks a part must not cost the other answers; the reason names what it was.
            got.append(Answer(question, f"not measured: {type(error).__name__}: {error}", "", ""))
        found.extend(got or [Answer(question, "not measured: no figure in the files", "", "")])
    return found


def markdown(rows: list[Answer]) -> str:
    """The rows as a table."""
    cells = [
        ("question", "value", "unit", "how"),
        *((row.question, row.value, row.unit, row.how) for row in rows),
    ]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
    return "\n".join([lines[0], "|---|---|---|---|", *lines[1:]])


def main() -> int:
    """Print the table of a run's folder, and write it there."""
    out = Path(sys.argv[1])
    rows = answers(Evidence(out))
    (out / "table.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    (out / "table.md").write_text(markdown(rows) + "\n")
    print(markdown(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
