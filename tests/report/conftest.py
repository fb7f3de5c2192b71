"""A small analysed run, written out: one prefill step, decode steps, a copy, and what nobody could name."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tracekit.report import Result, write_report
from tracekit.report.contract import CaptureUsed, DeviceUsed
from tracekit.tables import GAPS, KERNELS, QUALITY, STEPS
from tracekit.tables.ceilings import Ceilings, Roof

INTERNAL = ("peak", "weight_bytes", "kv_bytes")

H100 = Ceilings(
    device="NVIDIA H100 SXM",
    peaks={"bf16": Roof(spec=1000e12, source="data sheet"), "vector": Roof(spec=50e12, source="data sheet")},
    dram=Roof(spec=2e12, source="data sheet"),
)

KERNEL = {
    "kind": "kernel", "family": "gemm", "device": 0, "stream": 7, "from_graph": False, "launch_ts_ns": 0,
    "phase": "unknown", "phase_confidence": 1.0, "phase_evidence": "annotation", "hw_status": "not_collected",
    "bottleneck": "unknown", "bottleneck_confidence": 0.5, "bottleneck_evidence": "-",
}  # fmt: skip
STEP = {
    "engine": "vllm", "confidence": 1.0, "evidence": "annotation", "busy_ns": 0, "n_kernels": 1,
    "n_post_step_kernels": 0, "n_graph_launches": 0, "device": 0,
}  # fmt: skip


def frame(table: Any, rows: list[dict[str, Any]], internal: tuple[str, ...] = ()) -> pd.DataFrame:
    plain = pd.DataFrame(rows, columns=[*table.names, *internal])
    out = table.check(table.conform(plain))
    kept = {name: plain[name].astype("category" if name == "peak" else "float64") for name in internal}
    return out.assign(**kept)


@pytest.fixture
def make_result() -> Callable[..., Result]:
    """A result from rows that say only what matters; the rest is filled in."""

    def make(
        kernels: list[dict[str, Any]], steps: Any = (), gaps: Any = (), quality: Any = (), **more: Any
    ) -> Result:
        rows = [{**KERNEL, "kernel_id": number, **row} for number, row in enumerate(kernels)]
        return Result(
            frame(KERNELS, rows, INTERNAL),
            frame(STEPS, [{**STEP, "step_id": number, **row} for number, row in enumerate(steps)]),
            frame(GAPS, [{"device": 0, "evidence": "-", **row} for row in gaps]),
            frame(QUALITY, list(quality)),
            **{"ceilings": H100, **more},
        )

    return make


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs a Chromium binary on the path")
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[[Result], Any]]:
    """Opens a report from disk with the network off; fails at the end if the console said anything."""
    said: list[str] = []
    context = browser.new_context(
        offline=True, viewport={"width": 1280, "height": 900}, reduced_motion="reduce"
    )

    def visit(result: Result) -> Any:
        write_report(result, tmp_path, ("html",))
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((tmp_path / "report.html").as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield visit
    context.close()
    assert said == []


@dataclass(frozen=True)
class Won:
    """A finding as the findings stage hands it on."""

    title: str = "Decode waits for the host"
    phase: str = "decode"
    kernels: tuple[str, ...] = ("ampere_bf16_gemm<64x64>",)
    recoverable_ns: float = 4e6
    confidence: float = 0.8
    evidence: str = "22 % of decode wall time is idle before late launches"
    next_step: str = "replay decode in a CUDA graph"


NAMES = (
    ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", "gemm", "bf16"),
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8::Params)", "gemm", "bf16"),
    ("void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>, true>(flash::Flash_fwd_params)", "attention", "bf16"),
    ("void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, c10::BFloat16 const*)", "norm", "vector"),
    ("triton_poi_fused_add_mul_silu_3", "elementwise", "vector"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>", "elementwise", "vector"),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "comm.allreduce", None),
    ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>", "kv_cache", "vector"),
    ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>", "rope", "vector"),
    ("void at::native::(anonymous namespace)::softmax_warp_forward<float, float>", "sampling", "vector"),
    ("Memcpy DtoD (Device -> Device)", "copy", None),
    ("_ZN7mystery6kernelILi3EEvPf", "other", None),
)  # fmt: skip
INTENSITY = {
    "gemm": {"prefill": 420.0, "mixed": 160.0, "decode": 31.0},
    "attention": {"prefill": 240.0, "mixed": 20.0, "decode": 4.0},
}


def _kernels(
    random: np.random.Generator, step: int, phase: str, start: int, count: int, names: Any
) -> list[dict[str, Any]]:
    rows, now = [], start
    for at in range(count):
        name, family, peak = names[at % len(names)]
        dur = int(
            random.lognormal({"prefill": 11.4, "mixed": 10.6, "decode": 9.4}[phase], 0.5)
            * (2.2 if family == "gemm" else 1)
        )
        intensity = INTENSITY.get(family, {}).get(phase, 0.4)
        reach = random.uniform(0.45, 0.9) if family in {"gemm", "attention"} else random.uniform(0.1, 0.6)
        known = peak is not None and not (family == "attention" and phase == "decode" and at % 3 == 0)
        moved = reach * dur * min(2e12, 1e15 / intensity) / 1e9
        bound = (
            ("compute" if intensity > 500 * 0.6 else "dram")
            if known and reach > 0.5
            else "communication"
            if family.startswith("comm")
            else "copy"
            if family == "copy"
            else "latency"
            if dur < 9000
            else "unknown"
        )
        rows.append({
            "ts_ns": now, "dur_ns": dur, "name": name, "family": family, "step_id": step, "phase": phase, "kind": "memcpy" if family == "copy" else "kernel",
            "grid": f"{132 * (1 + at % 4)},1,1", "block": "256,1,1", "op": "aten::linear" if family == "gemm" else None, "launch_ts_ns": now - 9000,
            "peak": peak if known else None, "dtype": "bf16" if peak == "bf16" else None, "from_graph": phase == "decode",
            "flops": moved * intensity if known else None, "dram_bytes": moved if known else None, "flops_source": ("shape" if phase != "decode" else "donor") if known else None,
            "dram_bytes_source": "shape" if known else None, "weight_bytes": 0.8 * moved if family == "gemm" else None, "kv_bytes": 0.9 * moved if family == "attention" and known else None,
            "flops_per_s": moved * intensity / dur * 1e9 if known else None, "dram_bytes_per_s": moved / dur * 1e9 if known else None, "arithmetic_intensity": intensity if known else None,
            "bound_ns": dur * reach if known else None, "bound_by": "dram" if known else None, "excess_ns": dur * (1 - reach) if known else None,
            "bottleneck": bound, "bottleneck_confidence": 0.65 if known else 0.3, "bottleneck_evidence": f"{100 * reach:.0f} % of the {bound} roof (spec)" if known else "no work known: low utilisation cannot be told",
        })  # fmt: skip
        now += dur + int(random.exponential(1500 if phase != "decode" else 4000))
    return rows


@pytest.fixture
def big_result(make_result: Callable[..., Result]) -> Callable[..., Result]:
    """A run of 3 phases as an engine gives it; `steps` of `count` kernels each."""

    def make(steps: int = 24, count: int = 60, names: Any = NAMES, **more: Any) -> Result:
        random, kernels, rows, gaps, now = np.random.default_rng(7), [], [], [], 1_000_000
        for step in range(steps):
            phase = "prefill" if step in {0, 1} else "mixed" if step == steps // 2 else "decode"
            inside = _kernels(random, step, phase, now, count, names)
            end = inside[-1]["ts_ns"] + inside[-1]["dur_ns"]
            ctx, gen = {"prefill": (2048, 0), "mixed": (512, 31), "decode": (0, 32)}[phase]
            busy = sum(row["dur_ns"] for row in inside)
            rows.append({
                "ts_ns": now, "dur_ns": end - now, "phase": phase, "busy_ns": busy, "n_kernels": count, "annotation": f"execute_context_{ctx}_generation_{gen}",
                "context_requests": int(ctx > 0), "context_tokens": ctx, "generation_requests": gen, "generation_tokens": gen, "n_graph_launches": int(phase == "decode"),
                "sum_q": ctx + gen, "sum_k": 32 * (1000 + step), "mfu": 0.4 if phase == "prefill" else 0.05, "mbu": 0.2 if phase == "prefill" else 0.6,
                "dram_bytes": sum(row["dram_bytes"] or 0 for row in inside), "flops": sum(row["flops"] or 0 for row in inside),
            })  # fmt: skip
            gaps += [
                {
                    "step_id": step,
                    "ts_ns": a["ts_ns"] + a["dur_ns"],
                    "dur_ns": b["ts_ns"] - a["ts_ns"] - a["dur_ns"],
                    "cause": "host" if phase == "decode" else "dependency",
                }
                for a, b in pairwise(inside)
            ]
            kernels += inside
            now = end + 120_000
        quality = [
            {
                "code": "kernels_without_launch",
                "count": 12,
                "time_ns": 84_000,
                "message": "12 kernels have no launch record: their phase is unknown",
            }
        ]
        return make_result(
            kernels, rows, gaps, quality,
            **{
                "device": DeviceUsed("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM", "exact"),
                "captures": (CaptureUsed("run/timing.trace.json.gz", "timing", "named by the folder's manifest"),),
                "findings": (Won(), Won(title="Prefill GEMMs under their roof", phase="prefill", recoverable_ns=1.5e6, evidence="median 61 % of the bf16 peak (spec)", next_step="look at tile shapes")),
                **more,
            },
        )  # fmt: skip

    return make
