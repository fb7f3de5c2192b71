"""Whatever stands in a trace, in whatever order and however timed, there is a report, and its sums agree."""

import io
import json
import random
from pathlib import Path

import msgspec
import pytest
from tracebuilder import A100, TraceBuilder

from tracekit.compare import Run, Side, compare
from tracekit.errors import TracekitError
from tracekit.pipeline import Options, analyze, inspect_captures
from tracekit.report import Result, print_summary, write_report
from tracekit.report.annotated import write_annotated

KERNELS = (
    "nvjet_tst_64x8_64x16_4x1_v_bz_TNN", "void at::native::vectorized_elementwise_kernel<4, F>(int)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "void paged_attention_ll4mi_QKV_mfma16_kernel<0>()",
    "flash_fwd_splitkv_kernel", "Cijk_Alik_Bljk_BBS_BH_MT64x64x64", "triton_poi_fused_add_0", "Memcpy DtoH",
    "void vllm::reshape_and_cache_flash_kernel<int>()", "cunn_SoftMaxForward", "odd <b>name</b>",
)  # fmt: skip
ANNOTATIONS = (
    "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk800sqsq8sqsk800)", "decode_step_3", "prefill",
    "execute_context_1(512)_generation_0(0)", "execute_context_1(213)_generation_7(7)", "capture_32_FULL",
    "step[EXTEND bs=15 toks=15360]", "step[DECODE bs=4 toks=4]", "Optimizer.step#AdamW.step", "of no meaning",
)  # fmt: skip
OPS: dict[str, list[list[int]]] = {
    "aten::mm": [[8, 64], [64, 32]],
    "aten::embedding": [[1000, 64], [1, 8]],
    "aten::scaled_dot_product_attention": [[1, 4, 8, 16]] * 3,
    "aten::argmax": [[1, 1000]],
    "aten::add": [[8, 64], [8, 64]],
    "vllm::unified_attention_with_output": [[8, 4, 16]] * 4,
    "aten::_grouped_mm": [[8, 64], [4, 64, 32], [4]],
    "odd::op": [[]],
}
FRAMES = (
    "vllm/v1/worker/gpu_model_runner.py(1): execute_model",
    "sglang/srt/managers/scheduler.py(1): run_batch",
)
LENGTHS = (0, 0.001, 0.5, 3, 20, 300)


def any_trace(chance: random.Random) -> TraceBuilder:
    """Events of every kind at random: nothing need make sense."""
    devices = [A100] * chance.choice([0, 1, 1, 2])
    trace = TraceBuilder(devices=devices, base_ns=chance.choice([0, 1_764_000_000_123_456_789, None]))
    at = 0.0
    for _ in range(chance.randint(1, 80)):
        at = max(0.0, round(at + chance.choice([0, 0, 0.001, 1, 5, 50, -3]), 3))
        any_event(trace, chance, at, chance.choice(LENGTHS))
    return trace


def any_event(trace: TraceBuilder, chance: random.Random, at: float, length: float) -> None:
    thread, name = chance.choice([1, 1, 2]), chance.choice(KERNELS)
    kind = chance.choices(
        ["annotation", "op", "launched", "replay", "kernel", "sync", "frame"], [4, 5, 6, 2, 1, 1, 1]
    )
    if kind == ["annotation"]:
        trace.annotation(chance.choice(ANNOTATIONS), at, length + chance.choice([0, 100]), tid=thread)
    elif kind == ["op"]:
        op, dims = chance.choice([*OPS.items()])
        types = chance.choice([None, ["c10::BFloat16"] * len(dims)])
        trace.op(op, at, length, tid=thread, dims=chance.choice([None, dims]), types=types)
    elif kind == ["launched"]:
        grid = chance.choice([{}, {"grid": [chance.choice([1, 1000]), 1, 1], "block": [128, 1, 1]}])
        place = {"stream": chance.choice([7, 7, 9]), "device": chance.choice([0, 0, 1])}
        trace.launched(name, at, at + chance.choice([0, 1, 7, 500]), length, tid=thread, **place, **grid)
    elif kind == ["replay"]:
        replay = trace.launch(at, name=chance.choice(["cudaGraphLaunch", "hipGraphLaunch"]), tid=thread)
        for number in range(chance.choice([1, 5, 40])):
            trace.kernel(chance.choice(KERNELS), at + 10 + number, chance.choice(LENGTHS[:3]), replay)
    elif kind == ["kernel"]:
        trace.kernel(name, at, length)
    elif kind == ["sync"]:
        trace.event("cuda_runtime", "cudaDeviceSynchronize", at, length, tid=thread)
    else:
        trace.frame(chance.choice(FRAMES), at, length + 50, tid=thread)


def analysed(seed: int, folder: Path) -> Result | None:
    chance = random.Random(seed)  # noqa: S311 - the same traces each time
    path = any_trace(chance).write(folder / f"{seed}.json")
    options = Options(model=chance.choice([None, "llama-3.1-8b"]), steady=chance.random() < 0.2)
    json.dumps(inspect_captures([path], options), allow_nan=False)
    result = analyze([path], options)
    return result if len(result.all_kernels) else None


@pytest.mark.parametrize("seed", range(24))
def test_any_trace_has_a_report_whose_sums_agree(seed: int, tmp_path: Path) -> None:
    result = analysed(seed, tmp_path)
    if result is None:
        return
    formats = ("html", "md", "json", "parquet") if seed % 4 == 0 else ("md", "json", "parquet")
    write_report(result, tmp_path / "report", formats)
    print_summary(result, None, io.StringIO())
    write_annotated(result, tmp_path / "annotated.json", reduced=seed % 2 == 0)
    steps = result.steps.set_index("step_id")
    assert (steps["busy_ns"] <= steps["dur_ns"]).all()
    idle = result.gaps.groupby("step_id")["dur_ns"].sum()
    if result.kernels["device"].nunique() == 1 and (result.kernels["kind"] != "cpu_op").all():
        assert (idle + steps["busy_ns"].reindex(idle.index) <= steps["dur_ns"].reindex(idle.index)).all()
    for phase in result.overview.phases:
        assert phase.time_ns == result.rows.loc[result.rows["phase"] == phase.phase, "own_ns"].sum()


@pytest.mark.parametrize("seed", range(100, 112))
def test_any_two_traces_are_compared(seed: int, tmp_path: Path) -> None:
    sides = [
        Side(str(number), (Run.of(str(number), result),))
        for number in (seed, seed + 1000)
        if (result := analysed(number, tmp_path)) is not None
    ]
    if len(sides) == 2:
        try:
            document = msgspec.to_builtins(compare(*sides))
        except TracekitError as error:
            assert "\n" not in error.message
        else:
            json.dumps(document, allow_nan=False)
