"""Runs the steps of the GPU acceptance one by one, each with its limit, and prints the table of what they answer.

Start it with `gpu_acceptance.sh`. A step that cannot run here is skipped with its reason, one that fails is recorded with
its last line; neither stops the others, and the table says of each question what it lacks.
"""

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("torch", "pandas", "pyarrow", "numpy", "msgspec", "isal", "typer", "rich", "pycxxfilt")
BUDGET_S = 520.0
RESERVED_S = 70.0
"""Kept for the analyses at the end."""

MODEL, LAYERS = "Llama-3.1-8B", "4"
TINY = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the run.

    Attributes:
        name: Its name.
        state: done, skipped or failed.
        seconds: How long it took.
        reason: Why it was skipped or failed.
        command: What ran.
    """

    name: str
    state: str
    seconds: float = 0.0
    reason: str = ""
    command: tuple[str, ...] = ()


@dataclass(slots=True)
class Acceptance:
    """The output folder, the time that is left, and what was done so far."""

    out: Path
    device: str
    tiny: bool
    budget_s: float
    vendor: Path | None
    begun: float = field(default_factory=time.monotonic)
    steps: list[Step] = field(default_factory=list)

    @property
    def left_s(self) -> float:
        """Seconds that a step may still take."""
        return self.budget_s - RESERVED_S - (time.monotonic() - self.begun)

    def environment(self) -> dict[str, str]:
        """Of every step: this tree, the vendored packages, no network, none of the user's settings."""
        paths = [str(ROOT), str(self.out / ".site"), *([str(self.vendor)] if self.vendor else [])]
        inherited = os.environ.get("PYTHONPATH")
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*paths, *([inherited] if inherited else [])]),
            "XDG_CONFIG_HOME": str(self.out / ".config"),
            "TMPDIR": str(self.out / ".tmp"),
            "HF_HUB_OFFLINE": "1",
        }

    def skip(self, name: str, reason: str) -> None:
        """Record that a step cannot run here."""
        self._keep(Step(name, "skipped", reason=reason))

    def run(
        self,
        name: str,
        words: Sequence[str],
        limit_s: float,
        *,
        folder: Path | None = None,
        into: Path | None = None,
    ) -> bool:
        """Run a step to its end or to the end of its time; its output goes to `logs/`, or into a file.

        Returns:
            Whether it is done.
        """
        limit = min(limit_s, self.left_s)
        if limit < 1:
            self.skip(name, "no time was left")
            return False
        log, start = self.out / "logs" / f"{name}.log", time.monotonic()
        with log.open("wb") as errors, (into or log).open("ab" if into is None else "wb") as printed:
            # A process group of its own, so that what it started ends with it.
            process = subprocess.Popen(
                list(words),
                cwd=folder or self.out,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=errors,
                start_new_session=True,
            )
            code = _wait(process, limit)
        seconds = time.monotonic() - start
        if code == 0:
            self._keep(Step(name, "done", seconds, command=tuple(words)))
            return True
        reason = (
            f"did not end within {limit:.0f} s" if code is None else f"exit code {code}: {_last_line(log)}"
        )
        self._keep(Step(name, "failed", seconds, reason, tuple(words)))
        return False

    def _keep(self, step: Step) -> None:
        self.steps.append(step)
        document = [asdict(one) for one in self.steps]
        (self.out / "steps.json").write_text(json.dumps(document, indent=1) + "\n")
        said = f" ({step.reason})" if step.reason else ""
        print(
            f"[{time.monotonic() - self.begun:5.0f} s] {step.name}: {step.state}{said}",
            file=sys.stderr,
            flush=True,
        )


def _wait(process: "subprocess.Popen[bytes]", limit_s: float) -> int | None:
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    # `tracekit` says what is wrong in a line that begins so; a hint follows it.
    said = [line for line in lines if line.startswith("error:")]
    return (said or lines or ["it said nothing"])[-1][:300]


def tracekit(*words: str) -> list[str]:
    """A command line of this tree's tracekit."""
    return [sys.executable, "-m", "tracekit", *words]


def install(acceptance: Acceptance) -> None:
    """Make this tree's collectors findable without installing it: what an installation writes, in a folder of its own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = acceptance.out / ".site" / f"tracekit_acceptance-{project['version']}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: tracekit-acceptance\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def collect(acceptance: Acceptance, name: str, limit_s: float, *options: str) -> bool:
    """One call of `tracekit collect`, a capture or a sweep."""
    model = ["--model", str(acceptance.out / "model"), "--threads", "1"] if acceptance.tiny else []
    model = model or [
        "--model",
        MODEL,
        "--layers",
        LAYERS,
        "--dtype",
        "bf16" if acceptance.device == "cuda" else "fp32",
    ]
    words = [
        *model,
        "--device",
        acceptance.device,
        "--repeats",
        "3",
        "--decode-steps",
        "4" if acceptance.tiny else "16",
    ]
    return acceptance.run(
        name, tracekit("collect", "-o", str(acceptance.out / "captures" / name), *words, *options), limit_s
    )


def captures(acceptance: Acceptance) -> None:
    """Prefill and decode, eager and as graphs, with PyTorch's choice of attention and with its flash kernel."""
    prompts, depths, batches = (
        ("32,64", "24,48", "1,4") if acceptance.tiny else ("512,4096", "1000,8000", "1,64")
    )
    most = batches.partition(",")[2]
    collect(acceptance, "eager", 150, "--batch", "1", "--prompt-len", prompts, "--kv-len", depths)
    collect(acceptance, "batch", 90, "--phase", "decode", "--batch", most, "--kv-len", depths)
    graphed = ("--phase", "decode", "--batch", batches, "--kv-len", depths, "--cuda-graphs")
    if acceptance.device == "cuda":
        collect(acceptance, "graphs", 120, *graphed)
    else:
        acceptance.skip("graphs", "CUDA graphs need a GPU")
    shallow = depths.partition(",")[0]
    collect(acceptance, "flash", 90, "--prompt-len", prompts, "--kv-len", shallow, "--attention", "flash")


def counters(acceptance: Acceptance) -> None:
    """The lite set on eager decode and prefill, and kernels whose work is known by construction."""
    reason = _no_ncu(acceptance)
    if reason:
        for name in ("counted", "probe-none", "probe-all"):
            acceptance.skip(name, reason)
        return
    collect(acceptance, "counted", 200, "--prompt-len", "512", "--kv-len", "1000", "--counters", "lite")
    script = str(ROOT / "scripts" / "acceptance_probe.py")
    for caches in ("none", "all"):
        report = acceptance.out / "probe" / caches
        words = [sys.executable, script, "--command", str(report), caches]
        said = subprocess.run(
            words, env=acceptance.environment(), capture_output=True, text=True, check=False
        )
        if said.returncode:
            acceptance.skip(f"probe-{caches}", (said.stderr.strip().splitlines() or ["no command"])[-1])
            continue
        record, show = json.loads(said.stdout)
        if acceptance.run(f"probe-{caches}", record, 60):
            acceptance.run(f"probe-{caches}-csv", show, 40, into=report.with_suffix(".csv"))


def _no_ncu(acceptance: Acceptance) -> str:
    if acceptance.device != "cuda":
        return "hardware counters need a GPU"
    return "" if _ncu() else "ncu is not in PATH, and TRACEKIT_NCU names none"


def _ncu() -> str | None:
    named = os.environ.get("TRACEKIT_NCU", "ncu")
    places = [str(path) for path in sorted(Path("/").glob("usr/local/cuda*/bin"), reverse=True)]
    return shutil.which(named) or shutil.which(named, path=os.pathsep.join(places))


def nsys(acceptance: Acceptance) -> None:
    """The workload under Nsight Systems, exported and read."""
    if acceptance.device != "cuda":
        acceptance.skip("nsys", "Nsight Systems is for a GPU here")
        return
    if shutil.which("nsys") is None:
        acceptance.skip("nsys", "nsys is not in PATH")
        return
    script = str(ROOT / "scripts" / "acceptance_probe.py")
    words = ["nsys", "profile", "-f", "true", "-o", "nsys/run", "--trace", "cuda,nvtx", "--sample", "none"]
    words += ["--cuda-graph-trace", "node", sys.executable, script, "--workload", MODEL, LAYERS]
    if acceptance.run("nsys", words, 70):
        export = [
            "nsys",
            "export",
            "-f",
            "true",
            "--type",
            "sqlite",
            "-o",
            "nsys/run.sqlite",
            "nsys/run.nsys-rep",
        ]
        if acceptance.run("nsys-export", export, 40):
            acceptance.run(
                "nsys-report",
                tracekit("report", "nsys/run.sqlite", "--json", "--model", MODEL),
                40,
                into=acceptance.out / "nsys" / "report.json",
            )


def describe(acceptance: Acceptance) -> None:
    """What machine and software this is, without its host's or its user's name."""
    script = str(ROOT / "scripts" / "acceptance_probe.py")
    acceptance.run(
        "environment", [sys.executable, script, "--environment"], 90, into=acceptance.out / "environment.json"
    )


def main() -> int:
    """Run all steps and print the table."""
    parser = argparse.ArgumentParser(prog="gpu_acceptance", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for everything")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--tiny", action="store_true", help="a model of thousands of parameters: tries the script itself"
    )
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds for everything")
    parser.add_argument("--vendor", type=Path, help="folder that --prepare filled")
    given = parser.parse_args()
    vendor = given.vendor.resolve() if given.vendor else None
    if vendor is not None:
        sys.path.append(str(vendor))
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        hint = "gpu_acceptance.sh --prepare FOLDER where there is a network, then --vendor FOLDER"
        print(f"error: this Python lacks {', '.join(missing)}\nhint: {hint}", file=sys.stderr)
        return 1
    acceptance = Acceptance(given.output.resolve(), given.device, given.tiny, given.budget, vendor)
    for name in ("logs", "captures", "probe", "nsys", ".tmp", ".site"):
        (acceptance.out / name).mkdir(parents=True, exist_ok=True)
    install(acceptance)
    if acceptance.tiny:
        (acceptance.out / "model").mkdir(exist_ok=True)
        (acceptance.out / "model" / "config.json").write_text(json.dumps(TINY))
    describe(acceptance)
    calibrated = tracekit(
        "calibrate", "--device", acceptance.device, "-o", str(acceptance.out / "calibration")
    )
    if acceptance.tiny:
        acceptance.skip("calibrate", "left out of the tiny form: it takes a minute")
    else:
        acceptance.run("calibrate", calibrated, 90)
    captures(acceptance)
    counters(acceptance)
    nsys(acceptance)
    words = [sys.executable, str(ROOT / "scripts" / "acceptance_table.py"), str(acceptance.out)]
    return subprocess.run(words, env=acceptance.environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
