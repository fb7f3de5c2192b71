"""Steps of engines that mark them in NVTX alone: TensorRT-LLM and MLC-LLM."""

from pathlib import Path

from nsysbuilder import NsysBuilder

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


def steps(texts: tuple[str, ...], folder: Path) -> list[tuple[str, int, str]]:
    """Phase, kernels and engine of each step of a capture whose ranges have these texts."""
    trace = NsysBuilder()
    for number, text in enumerate(texts):
        begin = number * STEP
        trace.range(text, begin, begin + 1_000)
        for kernel in range(3):
            at = begin + 100 * kernel
            trace.launched(
                "fmhaSm100Kernel",
                at,
                begin + 2_000 + at % STEP,
                begin + 2_050 + at % STEP,
                3 * number + kernel + 1,
            )
    capture = read(trace.write(folder / "engine.sqlite"))
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
