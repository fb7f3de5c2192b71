"""Published worked examples of the roofline for LLM layers, to the digits given.

Hidden size 4096, bf16: linear y = x W with W 4096 x 4096; decode attention over 1000 tokens with 32 heads of 128.
Devices at their data sheets (A100-80: 312 TFLOP/s, 2.039 TB/s; H100: 989.4, 3.352) and an H200 at its measured
787 TFLOP/s and 4.30 TB/s.
"""

import pandas as pd
import pytest

from tracekit.roofline import apply_roofs, device_ceilings, load_devices, mbu, mfu, step_rates, with_measured
from tracekit.tables.ceilings import Ceilings

ROWS = {device.key: device for device in load_devices()}
A100 = device_ceilings(ROWS["a100-sxm4-80gb"])
A100_40 = device_ceilings(ROWS["a100-sxm4-40gb"])
H100 = device_ceilings(ROWS["h100-sxm5-80gb"])
L4, H20 = device_ceilings(ROWS["l4"]), device_ceilings(ROWS["h20-96gb"])
H200 = with_measured(
    device_ceilings(ROWS["h200-sxm"]),
    flops_per_s={"bf16": 787e12},
    dram_bytes_per_s=4.30e12,
    source="ceilings.json",
)

H = 4096


def linear(tokens: int) -> tuple[float, float]:
    """2MNK FLOPs; weights, inputs and outputs once, two bytes each."""
    return 2 * tokens * H * H, 2 * (H * H + 2 * tokens * H)


def decode_attention(batch: int, heads_kv: int = 32, length: int = 1000) -> tuple[float, float]:
    """4 L h d FLOPs; K and V read once, queries read and outputs written, two bytes each."""
    return 4.0 * batch * length * H, 2.0 * (2 * batch * length * heads_kv * 128 + 2 * batch * H)


def prefill_attention(length: int) -> tuple[float, float]:
    """4 h d L(L+1)/2 FLOPs; Q, K, V read and O written, two bytes each."""
    return 4.0 * H * length * (length + 1) / 2, 4.0 * 2 * length * H


def kernel(work: tuple[float, float], dur_ns: int = 100_000) -> pd.DataFrame:
    flops, moved = work
    return pd.DataFrame(
        {
            "kind": ["kernel"],
            "name": ["k"],
            "dur_ns": [dur_ns],
            "flops": [flops],
            "dram_bytes": [moved],
            "peak": ["bf16"],
        }
    )


@pytest.mark.parametrize(
    ("ceilings", "ridge"),
    [(A100, 153), (A100_40, 201), (H100, 295), (H200, 183)],
    ids=["A100-80", "A100-40", "H100", "H200"],
)
def test_ridge_points(ceilings: Ceilings, ridge: int) -> None:
    assert round(ceilings.ridge("bf16") or 0) == ridge


@pytest.mark.parametrize(
    ("ceilings", "batch"),
    [(A100, 165), (A100_40, 222), (H100, 345), (H200, 201), (L4, 502), (H20, 38)],
    ids=["A100-80", "A100-40", "H100", "H200", "L4", "H20"],
)
def test_ridge_batch_of_a_square_layer(ceilings: Ceilings, batch: int) -> None:
    # M H / (2M + H) = I*  gives  M* = I* H / (H - 2 I*)
    ridge = ceilings.ridge("bf16") or 0
    assert round(ridge * H / (H - 2 * ridge)) == batch


TABLE = [
    # work, gigaflop, megabyte, intensity, (bound_by, microseconds) on A100-80, H100, H200 measured
    (linear(512), 17.18, 41.9, 410, ("compute", 55.1), ("compute", 17.4), ("compute", 21.8)),
    (linear(1), 0.0336, 33.6, 1.0, ("dram", 16.5), ("dram", 10.0), ("dram", 7.8)),
    (linear(64), 2.15, 34.6, 62, ("dram", 17.0), ("dram", 10.3), ("dram", 8.0)),
    (linear(256), 8.59, 37.7, 228, ("compute", 27.5), ("dram", 11.3), ("compute", 10.9)),
    (decode_attention(1), 0.0164, 16.4, 1.0, ("dram", 8.0), ("dram", 4.9), ("dram", 3.8)),
    (decode_attention(64), 1.05, 1050, 1.0, ("dram", 515), ("dram", 313), ("dram", 244)),
    (decode_attention(64, heads_kv=8), 1.05, 263, 4.0, ("dram", 129), ("dram", 78.5), ("dram", 61)),
]


@pytest.mark.parametrize(("work", "gflop", "mb", "intensity", "a100", "h100", "h200"), TABLE)
def test_worked_table(work, gflop, mb, intensity, a100, h100, h200) -> None:  # noqa: ANN001 - one row of TABLE
    for ceilings, (bound_by, microseconds) in ((A100, a100), (H100, h100), (H200, h200)):
        row = apply_roofs(kernel(work), ceilings).iloc[0]
        assert row["flops"] / 1e9 == pytest.approx(gflop, rel=0.005)
        assert row["dram_bytes"] / 1e6 == pytest.approx(mb, rel=0.005)
        assert row["arithmetic_intensity"] == pytest.approx(intensity, rel=0.005)
        assert row["bound_by"] == bound_by
        assert row["bound_ns"] / 1e3 == pytest.approx(microseconds, abs=digit(microseconds))


def digit(value: float) -> float:
    """Half of the last digit shown: 0.05 for 55.1, 0.5 for 514."""
    return 0.05 if value != round(value) or value < 10 else 0.5


def test_prefill_attention_of_512_tokens_is_left_of_the_ridges_and_right_of_the_small_ones() -> None:
    row = apply_roofs(kernel(prefill_attention(512)), H100).iloc[0]
    assert row["flops"] / 1e9 == pytest.approx(2.15, abs=0.005)
    assert row["dram_bytes"] / 1e6 == pytest.approx(16.8, abs=0.05)
    assert round(row["arithmetic_intensity"]) == 128
    assert all((ceilings.ridge("bf16") or 0) > 128 for ceilings in (A100, A100_40, H100, H200))
    assert round(device_ceilings(ROWS["a10g"]).ridge("bf16") or 0) == 117
    assert round(device_ceilings(ROWS["h20-96gb"]).ridge("bf16") or 0) == 37


def test_prefill_attention_of_8192_tokens_is_compute_bound() -> None:
    row = apply_roofs(kernel(prefill_attention(8192)), H100).iloc[0]
    assert (round(row["flops"] / 1e9), round(row["dram_bytes"] / 1e6)) == (550, 268)
    assert round(row["arithmetic_intensity"]) == 2048
    assert row["bound_by"] == "compute"


def test_decode_floor_of_llama_3_1_8b_on_h100() -> None:
    # 7.505e9 weights of two bytes read a token at 3.352 TB/s
    row = apply_roofs(kernel((0.0, 2 * 7.505e9)), H100).iloc[0]
    assert row["bound_ns"] / 1e6 == pytest.approx(4.48, abs=0.005)


def test_kv_is_four_percent_of_a_llama_7b_layer_at_batch_1_and_most_of_it_at_batch_64() -> None:
    weights = 2 * (4 * H * H + 3 * 11008 * H)
    assert weights / 1e6 == pytest.approx(405, abs=0.5)
    kv = 4.0 * 1000 * H
    assert kv / (weights + kv) == pytest.approx(0.04, abs=0.005)
    assert 64 * kv / (weights + 64 * kv) == pytest.approx(0.72, abs=0.005)
    assert weights / (4 * H) == pytest.approx(24_700, abs=50)


def test_rates_and_excess_of_one_kernel() -> None:
    # 2e9 FLOP and 4e6 byte in 10 us on 1e15 FLOP/s and 2e12 byte/s: 2 us of compute, 2 us of DRAM; 8 us over.
    row = apply_roofs(kernel((2e9, 4e6), 10_000), simple()).iloc[0]
    assert row["flops_per_s"] == pytest.approx(2e14)
    assert row["dram_bytes_per_s"] == pytest.approx(4e11)
    assert row["bound_ns"] == pytest.approx(2_000)
    assert row["excess_ns"] == pytest.approx(8_000)
    assert (row["s_compute"], row["s_dram"]) == (pytest.approx(0.2), pytest.approx(0.2))


def simple() -> Ceilings:
    return with_measured(Ceilings(), flops_per_s={"bf16": 1e15, "fp32": 1e14}, dram_bytes_per_s=2e12)


def test_excess_adds_up_over_kernels() -> None:
    both = pd.concat([kernel((2e9, 0.0), 5_000), kernel((0.0, 8e6), 5_000)], ignore_index=True)
    out = apply_roofs(both, simple())
    assert out["excess_ns"].sum() == pytest.approx(10_000 - 2_000 - 4_000)


def test_measured_bytes_give_the_bandwidth_and_the_model_gives_the_bound() -> None:
    row = apply_roofs(kernel((0.0, 4e6), 10_000).assign(dram_bytes_hw=[12e6]), simple()).iloc[0]
    assert row["dram_bytes_per_s"] == pytest.approx(1.2e12)
    assert row["bound_ns"] == pytest.approx(2_000)
    assert row["s_dram"] == pytest.approx(0.6)


def test_unknown_work_stays_unknown() -> None:
    out = apply_roofs(kernel((float("nan"), float("nan"))), simple())
    assert (
        out[["flops_per_s", "dram_bytes_per_s", "arithmetic_intensity", "bound_ns", "excess_ns", "bound_by"]]
        .isna()
        .all(axis=None)
    )


def test_without_a_device_there_are_rates_and_no_bound() -> None:
    row = apply_roofs(kernel((2e9, 4e6), 10_000), Ceilings()).iloc[0]
    assert row["flops_per_s"] == pytest.approx(2e14)
    assert pd.isna(row["bound_ns"])


@pytest.mark.parametrize("moved", [4e6, float("nan")])
def test_no_operations_and_unknown_bytes_or_bandwidth_are_no_bound(moved: float) -> None:
    ceilings = Ceilings() if moved == 4e6 else simple()
    assert pd.isna(apply_roofs(kernel((0.0, moved)), ceilings).iloc[0]["bound_ns"])


def test_a_duration_of_zero_has_no_rate() -> None:
    assert apply_roofs(kernel((2e9, 4e6), 0), simple())[["flops_per_s", "s_dram"]].isna().all(axis=None)


def test_a_copy_to_the_host_is_bound_by_its_link() -> None:
    copy = pd.DataFrame(
        {"kind": ["memcpy"], "name": ["Memcpy DtoH (Device -> Pinned)"], "dur_ns": [40_000], "bytes": [1e6]}
    )
    row = apply_roofs(copy, device_ceilings(ROWS["l4"])).iloc[0]
    assert row["bound_by"] == "link"
    assert row["bound_ns"] == pytest.approx(1e6 / 31.5e9 * 1e9)


def test_mfu_takes_each_dtype_at_its_own_peak() -> None:
    # 5e9 at 1e15 and 1e9 at 1e14: 5 us + 10 us of peak time in 100 us of wall
    both = pd.concat([kernel((5e9, 0.0)), kernel((1e9, 0.0)).assign(peak="fp32")], ignore_index=True)
    assert mfu(both, 100_000, simple()) == pytest.approx(0.15)


def test_mbu_counts_weights_and_kv_only() -> None:
    # (3e6 + 1e6) byte at 2 TB/s: 2 us of 10
    one = kernel((0.0, 9e6)).assign(weight_bytes=[3e6], kv_bytes=[1e6])
    assert mbu(one, 10_000, simple()) == pytest.approx(0.2)
    assert mbu(kernel((0.0, 9e6)), 10_000, simple()) is None


def test_steps_sum_the_work_of_their_kernels() -> None:
    kernels = pd.concat(
        [kernel((5e9, 1e6)), kernel((5e9, float("nan"))), kernel((1e9, 1e6))], ignore_index=True
    )
    kernels = kernels.assign(
        step_id=pd.array([0, 0, None], dtype="Int64"), weight_bytes=[1e6, float("nan"), 1e6]
    )
    steps = pd.DataFrame(
        {"step_id": pd.array([0, 1], dtype="Int64"), "dur_ns": pd.array([100_000, 0], dtype="Int64")}
    )
    first, second = step_rates(kernels, steps, simple()).to_dict("records")
    assert (first["flops"], first["dram_bytes"], first["weight_bytes"]) == (10e9, 1e6, 1e6)
    assert first["mfu"] == pytest.approx(0.1)
    assert first["mbu"] == pytest.approx(0.005)
    assert all(pd.isna(second[name]) for name in ("flops", "mfu", "mbu"))


def test_a_step_of_mostly_unknown_work_has_sums_and_no_utilisation() -> None:
    kernels = pd.concat(
        [kernel((5e9, 1e6), 10_000), kernel((float("nan"), float("nan")), 90_000)], ignore_index=True
    )
    kernels = kernels.assign(step_id=pd.array([0, 0], dtype="Int64"))
    steps = pd.DataFrame(
        {"step_id": pd.array([0], dtype="Int64"), "dur_ns": pd.array([100_000], dtype="Int64")}
    )
    (row,) = step_rates(kernels, steps, simple()).to_dict("records")
    assert row["flops"] == 5e9
    assert pd.isna(row["mfu"])
    communicating = kernels.assign(family=["gemm", "comm.nccl"])
    assert step_rates(communicating, steps, simple())["mfu"].iloc[0] == pytest.approx(0.05)
