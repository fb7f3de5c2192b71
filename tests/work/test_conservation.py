"""Conservation: the work of the kernels is the work of the steps is the work of the phases, through the whole pipeline."""

from pathlib import Path

import pandas as pd
import pytest
from tracebuilder import TraceBuilder

import tracekit

HIDDEN = 1024
QUANTITIES = ["flops", "dram_bytes", "weight_bytes", "kv_bytes"]
GEMM = "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_stage4"
# Annotation, tokens; one of them an empty iteration.
STEPS = [
    ("execute_context_1(512)_generation_0(0)", 512),
    ("execute_context_0(0)_generation_8(8)", 8),
    ("execute_context_0(0)_generation_8(8)", 8),
    ("execute_context_0(0)_generation_0(0)", 0),
    ("execute_context_1(120)_generation_8(8)", 128),
]


def layer(trace: TraceBuilder, ts: float, tokens: int) -> None:
    """A product by a square weight, a write of the cache, and a norm of whose kernel nothing is recorded."""
    rows, bf16 = [tokens, HIDDEN], "c10::BFloat16"
    trace.op("aten::mm", ts, 5, dims=[rows, [HIDDEN, HIDDEN]], types=[bf16, bf16])
    trace.launched(GEMM, launch_ts=ts + 1, ts=ts + 20, dur=100)
    cache = [[tokens, 8, 128], [tokens, 8, 128], [99, 16, 8, 128], [99, 16, 8, 128], [tokens]]
    trace.op("_C_cache_ops::reshape_and_cache_flash", ts + 10, 5, dims=cache, types=[bf16] * 4 + ["long int"])
    trace.launched("void vllm::reshape_and_cache_flash_kernel<int>()", launch_ts=ts + 11, ts=ts + 130, dur=20)
    trace.launched("void vllm::rms_norm_kernel<int>()", launch_ts=ts + 18, ts=ts + 160, dur=20)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> "tracekit.Result":
    trace = TraceBuilder()
    for number, (text, tokens) in enumerate(STEPS):
        at = 1000.0 * number
        trace.annotation(text, at, 500)
        if tokens:
            layer(trace, at + 10, tokens)
    # After the last step: a copy whose bytes are recorded, of that step too.
    launch = trace.launch(4600, name="cudaMemcpyAsync")
    trace.kernel("Memcpy DtoD (Device -> Device)", 4610, 5, launch, cat="gpu_memcpy", bytes=4096)
    path: Path = tmp_path_factory.mktemp("run") / "trace.json"
    return tracekit.analyze([trace.write(path)])


def summed(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    columns = [name for name in QUANTITIES if name in frame]
    return frame.groupby(by, observed=True)[columns].sum()


def test_the_work_of_kernels_is_the_work_of_their_steps(result: "tracekit.Result") -> None:
    kernels, steps = summed(result.kernels, "step_id"), result.steps.set_index("step_id")
    assert result.kernels["step_id"].notna().all()
    for name in ("flops", "dram_bytes"):
        known = steps.loc[kernels.index, name].astype(float)
        assert known.tolist() == kernels[name].tolist()
    assert steps["flops"].fillna(0).tolist() == [
        2 * tokens * HIDDEN * HIDDEN for tokens in (512, 8, 8, 0, 128)
    ]


def test_the_work_of_steps_is_the_work_of_phases(result: "tracekit.Result") -> None:
    by_phase = summed(result.steps.astype(dict.fromkeys(QUANTITIES, float)), "phase")
    said = {row["phase"]: row for row in result.summary["phases"]}
    assert set(said) == {"prefill", "decode", "mixed"}
    for phase, row in said.items():
        assert [row[name] for name in QUANTITIES] == by_phase.loc[phase, QUANTITIES].tolist()


def test_the_work_of_families_is_the_work_of_phases(result: "tracekit.Result") -> None:
    families = pd.DataFrame(result.summary["families"])
    for row in result.summary["phases"]:
        part = families[families["phase"] == row["phase"]]
        assert part["flops"].sum() == row["flops"]
        assert part["dram_bytes"].sum() == row["dram_bytes"]


def test_weights_and_cache_are_counted_once_a_step(result: "tracekit.Result") -> None:
    # A square weight of 2 B an element; 2 x 8 x 128 elements of 2 B written a token.
    steps = result.steps[result.steps["n_kernels"] > 0]
    assert steps["weight_bytes"].tolist() == [2 * HIDDEN * HIDDEN] * 4
    assert steps["kv_bytes"].tolist() == [2 * 8 * 128 * 2 * tokens for tokens in (512, 8, 8, 128)]
