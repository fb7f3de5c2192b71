"""Steps of engines that mark them in NVTX alone: TensorRT-LLM and MLC-LLM."""

from pathlib import Path

from nsysbuilder import HOST, PRIVATE, USER, NsysBuilder

import tracekit
from tracekit.link import link
from tracekit.phase import label
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


def test_no_token_rate_is_made_of_requests_whose_tokens_are_not_said(tmp_path: Path) -> None:
    phases = tracekit.analyze([engine(TRT_LLM, tmp_path)]).summary["phases"]
    tokens = {phase["phase"]: phase["tokens"] for phase in phases}
    assert tokens == {"prefill": 640, "mixed": None, "decode": None}


def test_a_report_of_an_export_shows_nothing_private(tmp_path: Path) -> None:
    result = tracekit.analyze([engine(TRT_LLM, tmp_path)])
    shown = (
        f"{result.summary}{result.all_kernels.to_json()}{result.steps.to_json()}{result.quality.to_json()}"
    )
    for private in (PRIVATE, HOST, USER, "HF_TOKEN"):
        assert private not in shown
