"""Steps of engines that mark them in NVTX alone: TensorRT-LLM and MLC-LLM."""

from pathlib import Path

from nsysbuilder import HOST, PRIVATE, USER, NsysBuilder

import tracekit
from tracekit.link import link
from tracekit.phase import label
from tracekit.pipeline import Options
from tracekit.readers import read
from tracekit.taxonomy import name_families

STEP = 1_000_000
TRT_LLM = (
    "[Executor] _forward_step 1: 2 ctx reqs, 640 ctx tokens, 0 gen reqs",
    "[Executor] _forward_step 2: 1 ctx reqs, 320 ctx tokens, 2 gen reqs",
    "[Executor] _forward_step 3: 0 ctx reqs, 0 ctx tokens, 3 gen reqs",
)
MLC_LLM = ("BatchPrefill num_seq=2 total_len=640", "BatchDecode num_seqs=2")


def engine(texts: tuple[str, ...], folder: Path) -> str:
    """A capture whose ranges have these texts, three kernels launched in each; its path."""
    trace = NsysBuilder()
    for number, text in enumerate(texts):
        begin = number * STEP
        trace.range(text, begin, begin + 1_000)
        for kernel in range(3):
            call = begin + 100 * kernel
            start = begin + 2_000 + 100 * kernel
            trace.launched("fmhaSm100Kernel", call, start, start + 50, 3 * number + kernel + 1)
    return trace.write(folder / "engine.sqlite")


def steps(texts: tuple[str, ...], folder: Path) -> list[tuple[str, int, str]]:
    """Phase, kernels and engine of each step."""
    capture = read(engine(texts, folder))
    linked = link(capture)
    found = label(name_families(linked.kernels), capture, linked).steps
    return list(zip(found["phase"], found["n_kernels"], found["engine"], strict=True))


def test_tensorrt_llm_steps_have_their_phase_from_nvtx(tmp_path: Path) -> None:
    assert steps(TRT_LLM, tmp_path) == [
        ("prefill", 3, "tensorrt-llm"),
        ("mixed", 3, "tensorrt-llm"),
        ("decode", 3, "tensorrt-llm"),
    ]


def test_mlc_llm_steps_have_their_phase_from_nvtx(tmp_path: Path) -> None:
    assert steps(MLC_LLM, tmp_path) == [("prefill", 3, "mlc-llm"), ("decode", 3, "mlc-llm")]


def test_generating_requests_are_taken_to_have_a_token_each_and_that_is_said(tmp_path: Path) -> None:
    result = tracekit.analyze([engine(TRT_LLM, tmp_path)])
    phases = {phase["phase"]: phase["tokens"] for phase in result.summary["phases"]}
    assert phases == {"prefill": 640, "mixed": 322, "decode": 3}
    steps = result.steps.set_index("phase")
    assert steps["confidence"].to_dict() == {"prefill": 0.99, "mixed": 0.9, "decode": 0.9}
    assert steps["flags"].astype(object).fillna("").str.contains("assumed_tokens").to_dict() == {
        "prefill": False,
        "mixed": True,
        "decode": True,
    }
    notes = {note["code"]: note["count"] for note in result.summary["quality"]}
    assert notes["tokens_assumed"] == 2


def test_a_report_of_an_export_shows_nothing_private(tmp_path: Path) -> None:
    result = tracekit.analyze([engine(TRT_LLM, tmp_path)])
    shown = (
        f"{result.summary}{result.all_kernels.to_json()}{result.steps.to_json()}{result.quality.to_json()}"
    )
    for private in (PRIVATE, HOST, USER, "HF_TOKEN"):
        assert private not in shown


# One layer of a dense model as TensorRT-LLM launches it; names are those of its kernels.
LAYER = (
    "void tensorrt_llm::kernels::generalRmsNorm<__nv_bfloat16>(int)",
    "nvjet_sm90_tst_128x64_64x8_2x1_v_bz_TNT",
    "void tensorrt_llm::kernels::fusedQKNormRopeKernel<128>(int)",
    "fmhaSm90Kernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ64Kv128PersistentSwapsAbForGen",
    "nvjet_sm90_tst_64x64_64x8_2x1_v_bz_TNT",
    "void tensorrt_llm::kernels::generalRmsNorm<__nv_bfloat16>(int)",
    "nvjet_sm90_tst_256x64_64x8_2x1_v_bz_TNT",
    "void tensorrt_llm::kernels::silu_and_mul<__nv_bfloat16>(int)",
    "nvjet_sm90_tst_64x128_64x8_2x1_v_bz_TNT",
)
LAST = (LAYER[0], "nvjet_sm90_tst_512x8_64x8_2x1_v_bz_TNT")


def test_graph_replays_of_tensorrt_llm_have_the_work_of_the_model_that_is_named(tmp_path: Path) -> None:
    trace = NsysBuilder()
    trace.range(TRT_LLM[2], 0, 1_000)
    trace.call("cudaGraphLaunch_v10000", 100, 200, 7)
    for node, name in enumerate((*LAYER * 36, *LAST)):
        trace.kernel(name, 2_000 + 20_000 * node, 20_000 + 20_000 * node, 7, graphNodeId=node + 1)
    path = trace.write(tmp_path / "decode.sqlite")
    result = tracekit.analyze([path], Options(model="qwen3-8b"))
    kernels = result.kernels.assign(family=result.kernels["family"].astype(object))
    # Three requests, one token each: 2·3·(parameters without embedding and head) and a row of logits each.
    layer = 6144 * 4096 + 4096 * 4096 + 3 * 12288 * 4096
    products = kernels[kernels["family"].str.startswith("gemm")]
    assert products["flops"].sum() == 2 * 3 * (36 * layer + 151936 * 4096)
    assert set(products["flops_source"].astype(object)) == {"config"}
    # Its annotation does not say how long keys are: attention alone stays unknown.
    assert set(kernels.loc[kernels["flops"].isna(), "family"]) == {"attn"}
    # Queries and keys are normed and rotated in one kernel: 7 operations an element of 40 heads of 128.
    fused = kernels[kernels["name"].astype(object) == LAYER[2]]
    assert fused["flops"].tolist() == [7 * 3 * 40 * 128] * 36


def test_an_export_without_steps_says_how_nsys_records_them(tmp_path: Path) -> None:
    path = NsysBuilder().launched("gemm", 100, 1_000, 1_250, 7).write(tmp_path / "plain.sqlite")
    notes = {note["code"]: note["message"] for note in tracekit.analyze([path]).summary["quality"]}
    assert "NVTX range named prefill or decode" in notes["no_steps"]
