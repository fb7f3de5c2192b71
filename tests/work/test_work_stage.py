"""The work stage as a whole: the surest source first, and a line that says what to give where none is left."""

import json

import numpy as np
import pandas as pd

from tracekit.models import ModelConfig, presets
from tracekit.tables import LINKED, OP_TREE, RUNTIME_CALLS, SIGNATURES, STEPS, Capture, CaptureInfo, Linked
from tracekit.tables.capture import DEVICE_EVENTS, OPS, RANGES
from tracekit.work import find_work

DENSE = ModelConfig("dense", layers=1, hidden=16, intermediate=32, heads=4, kv_heads=2, head_dim=8, vocab=100)
BF16 = json.dumps(["c10::BFloat16"] * 2)
MM = ("aten::mm", "[[3, 16], [16, 64]]", BF16)


def capture(ops: list[tuple[str, str, str]], launches: int = 0) -> tuple[Capture, Linked]:
    """Ops of 100 ns one after another; under each of the first, a launch that ran no kernel."""
    count = len(ops)
    spans = {"ts_ns": [100 * at for at in range(count)], "dur_ns": 90, "thread": 0, "signature": range(count)}
    flat = pd.DataFrame({"name": [op[0] for op in ops], **spans})
    calls = {
        "name": "cudaLaunchKernel",
        "ts_ns": [100 * at + 5 for at in range(launches)],
        "dur_ns": 1,
        "thread": 0,
    }
    empty = RANGES.empty()
    taken = Capture(
        CaptureInfo("a.json", "kineto"),
        DEVICE_EVENTS.empty(),
        RUNTIME_CALLS.conform(pd.DataFrame(calls).assign(correlation=range(1, launches + 1))),
        OPS.conform(flat),
        SIGNATURES.conform(pd.DataFrame(ops, columns=["op", "dims", "types"])),
        empty,
        empty,
    )
    return taken, Linked(LINKED.empty(), OP_TREE.conform(flat.assign(parent=-1, depth=0, self_ns=90)))


def replayed(families: list[str]) -> pd.DataFrame:
    count = len(families)
    frame = pd.DataFrame(
        {
            "kernel_id": range(count),
            "kind": "kernel",
            "name": families,
            "ts_ns": range(count),
            "dur_ns": 10,
            "from_graph": True,
            "correlation": 1,
            "node_order": range(count),
        }
    )
    return LINKED.conform(frame).assign(family=families, step_id=0, name_dtype=pd.Categorical([None] * count))


def steps() -> pd.DataFrame:
    # One request of 3 tokens from nothing: A = 6.
    row = {"context_requests": 1, "context_tokens": 3, "generation_requests": 0, "generation_tokens": 0}
    return STEPS.conform(
        pd.DataFrame([{"step_id": 0, **row, "sum_q": 3, "sum_k": 3, "sum_qq": 9, "sum_qk": 9}])
    )


LAYER = ["norm", "gemm", "rope", "kv", "attn", "gemm", "norm", "gemm", "act", "gemm", "norm", "gemm"]


def test_without_sizes_a_line_says_what_to_give() -> None:
    worked = find_work(replayed(LAYER), *capture([]), steps())
    assert worked.kernels["flops"].isna().all()
    (note,) = worked.quality
    assert (note.code, note.count, note.time_ns) == ("work_unknown", 12, 120)
    assert "--donor" in note.message
    assert "--model" in note.message


def test_a_model_fills_every_kernel_of_a_step() -> None:
    worked = find_work(replayed(LAYER), *capture([]), steps(), config=DENSE)
    assert worked.quality == ()
    assert set(worked.kernels["flops_source"]) == {"config"}
    # qkv 64 x 16, out 16 x 32, gate_up 64 x 16, down 16 x 32, head 100 x 16 for one request.
    products = 2 * 3 * (1024 + 512 + 1024 + 512) + 2 * 1600
    assert worked.kernels.loc[worked.kernels.family == "gemm", "flops"].sum() == products
    assert worked.kernels.loc[worked.kernels.family == "attn", "flops"].sum() == 4 * 4 * 8 * 6


def test_steps_without_key_lengths_leave_attention_unknown_and_say_so() -> None:
    # TensorRT-LLM's annotation gives tokens and requests, not how long their keys are.
    keyless = steps().assign(sum_k=np.nan, sum_qq=np.nan, sum_qk=np.nan)
    worked = find_work(replayed(LAYER), *capture([]), STEPS.conform(keyless), config=DENSE)
    unknown = worked.kernels["flops"].isna() & worked.kernels["dram_bytes"].isna()
    assert worked.kernels.loc[unknown, "family"].tolist() == ["attn"]
    assert worked.quality == ()  # one kernel of twelve is little
    attention = worked.kernels["family"] == "attn"
    longer = replayed(LAYER).assign(dur_ns=np.where(attention, 500, 10))
    (note,) = find_work(longer, *capture([]), STEPS.conform(keyless), config=DENSE).quality
    assert (note.code, note.count, note.time_ns) == ("work_unknown", 1, 500)
    assert "no key lengths" in note.message


def test_a_donor_comes_before_the_model() -> None:
    donor = capture([MM, MM], launches=2)
    worked = find_work(replayed(["gemm", "gemm"]), *capture([]), steps(), donors=[donor], config=DENSE)
    assert worked.kernels["flops"].tolist() == [2 * 3 * 16 * 64] * 2
    assert worked.kernels["flops_source"].tolist() == ["donor", "donor"]


def test_a_model_that_the_sizes_name_is_used_and_said() -> None:
    sizes = ((4096, 151936), (4096, 6144), (4096, 24576), (12288, 4096))
    weights = [("aten::mm", f"[[3, {inner}], [{inner}, {out}]]", BF16) for inner, out in sizes]
    candidates = list(presets().values())
    kernels = replayed(["attn"] * 36)
    worked = find_work(kernels, *capture(weights), steps(), candidates=candidates)
    assert worked.config is not None
    assert worked.config.name == "Qwen3-8B"
    assert [note.code for note in worked.quality] == ["model_identified"]
    assert worked.kernels["flops"].tolist() == [4 * 32 * 128 * 6] * 36
    assert find_work(kernels, *capture(weights), steps()).config is None


def test_weights_of_an_expected_number_of_experts_are_flagged_and_said() -> None:
    routed = ModelConfig("moe", 1, 16, 0, 4, 2, 8, 100, experts=8, experts_per_token=2, expert_intermediate=8)
    worked = find_work(replayed(["moe.gemm", "moe.gemm", "attn"]), *capture([]), steps(), config=routed)
    # Three tokens touch two to six of eight: 8·(1 - (3/4)³) = 4.625 are expected, of 3·16·8 weights of 2 B each.
    assert worked.kernels["weight_bytes"].sum() == 4.625 * 3 * 16 * 8 * 2
    assert worked.kernels["flags"].astype(object).tolist()[:2] == ["expected_experts"] * 2
    assert worked.kernels["flags"].isna().tolist() == [False, False, True]
    (note,) = worked.quality
    assert (note.code, note.count, note.time_ns) == ("experts_expected", 2, 20)
    assert "100% of the weight bytes" in note.message
