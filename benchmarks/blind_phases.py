"""How often tracekit labels a phase right where no annotation tells it.

    python benchmarks/blind_phases.py CAPTURE_OR_FOLDER...

Takes captures whose steps are annotated, hides first every annotation and the file's name, then also the
Python frames, then also the recorded shapes, and compares the phases found with the annotated ones, by time.
Captures of a GPU and of a CPU are counted apart. `--training` captures must yield no prefill or decode at all.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from tracekit.errors import TracekitError
from tracekit.link import link
from tracekit.phase import Phased, label, wanted_frames
from tracekit.readers import read
from tracekit.tables import LLM_PHASES, RANGES, Capture, Kind, Linked
from tracekit.taxonomy import name_families

LEVELS = ("no annotations", "and no Python frames", "and no shapes")
BINS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Case:
    """One annotated capture and what its annotations say."""

    name: str
    device: str
    capture: Capture
    linked: Linked
    kernels: pd.DataFrame
    truth: Phased


def hide(capture: Capture, level: int) -> Capture:
    """The capture without what the level hides."""
    blind = replace(capture, annotations=RANGES.empty(), info=replace(capture.info, path="capture.json"))
    if level >= 1:
        blind = replace(blind, frames=RANGES.empty())
    if level >= 2:
        none = pd.Categorical([None] * len(blind.signatures))
        blind = replace(
            blind, signatures=blind.signatures.assign(dims=none, types=none, strides=none, concrete=none)
        )
    return blind


def captures(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.rglob("*.json*")) if path.is_dir() else [path]


def load(paths: list[Path]) -> Iterator[Case]:
    for path in captures(paths):
        try:
            capture = read(str(path), keep_frame=wanted_frames())
        except TracekitError as error:
            print(f"skipped: {error}", file=sys.stderr)
            continue
        linked = link(capture)
        kernels = name_families(linked.kernels)
        device = "CPU" if (kernels["kind"] == str(Kind.CPU_OP)).all() else "GPU"
        if len(kernels):
            yield Case(path.name, device, capture, linked, kernels, label(kernels, capture, linked))


def annotated(case: Case) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Kernels whose phase an annotation tells."""
    said = case.truth.kernels["phase_evidence"].astype(str).str.startswith(("annotation", "post_step"))
    told = bool((case.truth.steps["annotation"].notna()).any())
    return (said & case.truth.kernels["phase"].isin([str(phase) for phase in LLM_PHASES]) & told).to_numpy(
        dtype=bool
    )


def score(case: Case, level: int) -> pd.DataFrame:
    """One row a kernel that an annotation labels: time, truth, label, confidence, and whether it is right."""
    rows = annotated(case)
    found = label(case.kernels, hide(case.capture, level), case.linked).kernels[rows]
    truth = case.truth.kernels["phase"].astype(str).to_numpy()[rows]
    phase = found["phase"].astype(str).to_numpy()
    return pd.DataFrame(
        {
            "device": case.device,
            "capture": case.name,
            "level": level,
            "time": found["dur_ns"].to_numpy(dtype=float),
            "truth": truth,
            "phase": phase,
            "confidence": found["phase_confidence"].to_numpy(dtype=float),
            "right": phase == truth,
            "unknown": phase == "unknown",
        }
    )


def print_steps(cases: list[Case]) -> None:
    print("\nAnnotated steps, and their time:")
    for case in cases:
        rows = case.truth.kernels[annotated(case)]
        time = rows.groupby(rows["phase"].astype(str))["dur_ns"].sum() / 1e6
        steps = case.truth.steps["phase"].astype(str).value_counts()
        parts = ", ".join(f"{phase} {steps.get(phase, 0)} steps {ms:.1f} ms" for phase, ms in time.items())
        print(f"  {case.device}  {case.name[:60]:60}  {parts}")


def print_scores(scores: pd.DataFrame) -> None:
    for device, mine in scores.groupby("device"):
        print(f"\n{device}: share of the annotated time")
        print(
            f"  {'hidden':24}{'right of labelled':>18}{'unknown':>9}{'wrong':>8}{'wrong at confidence >= 0.8':>28}"
        )
        for level, rows in mine.groupby("level"):
            whole = rows["time"].sum()
            unknown = rows.loc[rows["unknown"], "time"].sum()
            right = rows.loc[rows["right"], "time"].sum()
            wrong = ~rows["right"] & ~rows["unknown"]
            sure = rows.loc[wrong & (rows["confidence"] >= 0.8), "time"].sum()
            labelled = right / (whole - unknown) if whole > unknown else float("nan")
            bad = rows.loc[wrong, "time"].sum()
            print(
                f"  {LEVELS[level]:24}{labelled:18.1%}{unknown / whole:9.1%}{bad / whole:8.1%}{sure / whole:28.1%}"
            )
        print("  by capture and phase:")
        for (level, name, truth), rows in mine.groupby(["level", "capture", "truth"]):
            got = rows.groupby("phase")["time"].sum() / rows["time"].sum()
            print(
                f"    {LEVELS[level]:22}{name[:44]:46}{truth:9} -> "
                + ", ".join(f"{p} {s:.1%}" for p, s in got.items())
            )


def print_reliability(scores: pd.DataFrame) -> None:
    print("\nReliability: of the time labelled with a confidence, the share that is right")
    labelled = scores[~scores["unknown"]]
    for device, mine in labelled.groupby("device"):
        bins = pd.cut(mine["confidence"], BINS)
        for band, rows in mine.groupby(bins, observed=True):
            right = rows.loc[rows["right"], "time"].sum() / rows["time"].sum()
            print(f"  {device}  {band!s:12} {rows['time'].sum() / 1e6:10.1f} ms  right {right:.1%}")


def print_training(cases: list[Case]) -> None:
    print(
        "\nTraining and vision captures: share of time called prefill, decode, mixed, verify or draft (must be 0)"
    )
    for case in cases:
        rows = case.truth.kernels
        called = rows.loc[rows["phase"].isin([str(phase) for phase in LLM_PHASES]), "dur_ns"].sum()
        print(f"  {case.name[:60]:60} {called / max(rows['dur_ns'].sum(), 1):.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("captures", nargs="*", type=Path)
    parser.add_argument("--training", nargs="*", type=Path, default=[])
    asked = parser.parse_args()
    cases = [case for case in load(asked.captures) if annotated(case).any()]
    if cases:
        print_steps(cases)
        scores = pd.concat(
            [score(case, level) for case in cases for level in range(len(LEVELS))], ignore_index=True
        )
        print_scores(scores)
        print_reliability(scores)
    if asked.training:
        print_training(list(load(asked.training)))


if __name__ == "__main__":
    main()
