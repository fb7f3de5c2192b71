"""A whole decode layer of an MLA and MoE model as vLLM records it: every kernel has its work, and nothing counts twice."""

from typing import Any

import pytest
from tracebuilder import TraceBuilder

import tracekit

BF16, U8, I32, F32 = "c10::BFloat16", "unsigned char", "int", "float"
# Eight requests, one token each, 800 keys in all.
STEP = "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk800sqsq8sqsk800)"
REQUESTS, KEYS, HEADS, LATENT, ROPE, NOPE, VALUE = 8, 800, 16, 512, 64, 128, 128
EXPERTS, CHOSEN, HIDDEN, INNER = 32, 4, 1024, 256

# op, dims, types, plain values by position, name of its kernel; None is the op around the ones below it.
ABSORB = [[HEADS, REQUESTS, NOPE], [HEADS, NOPE, LATENT]]
EXPAND = [[HEADS, REQUESTS, LATENT], [HEADS, LATENT, VALUE]]
ATTENTION = [
    ("aten::bmm", ABSORB, [BF16] * 2, {}, "nvjet_tst_64x8_64x16_4x1_v_bz_TNN"),
    (
        "_flashmla_C::fwd_kvcache_mla",
        [[REQUESTS, 1, HEADS, LATENT + ROPE], [99, 64, 1, LATENT + ROPE], [], [REQUESTS], [REQUESTS, 9]],
        [BF16, BF16, "Scalar", I32, I32],
        {2: str(LATENT)},
        "void flash::flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8>>()",
    ),
    ("aten::bmm", EXPAND, [BF16] * 2, {}, "nvjet_tst_64x8_64x16_4x1_v_bz_NNN"),
]
EXPERT = (
    "_moe_C::moe_wna16_gemm",
    [[REQUESTS, HIDDEN], [REQUESTS, CHOSEN, 2 * INNER], [EXPERTS, 2 * INNER, HIDDEN // 2], [EXPERTS, 2 * INNER, HIDDEN // 32]],
    [BF16, BF16, U8, BF16],
    {},
    "void moe_wna16_gemm_kernel<__nv_bfloat16, 4, 1>()",
)  # fmt: skip


def add(trace: TraceBuilder, at: float, op: tuple[Any, ...], kernel_at: float) -> None:
    name, dims, types, plain, kernel = op
    concrete = [plain.get(index, "") for index in range(len(dims))]
    trace.op(name, at, 8, dims=dims, types=types, concrete=concrete)
    trace.launched(kernel, at + 2, kernel_at, 10, grid=[64, 1, 1], block=[128, 1, 1])


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Any:
    trace = TraceBuilder(options={"record_shapes": 1}).annotation(STEP, 0, 200)
    outer = [
        [REQUESTS, HEADS, NOPE + ROPE],
        [REQUESTS, LATENT],
        [REQUESTS, 1, ROPE],
        [REQUESTS, HEADS * VALUE],
    ]
    trace.op("vllm::unified_mla_attention_with_output", 10, 60, dims=outer, types=[BF16] * 4)
    for place, op in enumerate(ATTENTION):
        add(trace, 12 + 10 * place, op, 300 + 20 * place)
    add(trace, 100, EXPERT, 400)
    path = trace.write(tmp_path_factory.mktemp("engine") / "trace.json")
    return tracekit.analyze([path])


def test_every_kernel_of_the_layer_has_work(kernels: Any) -> None:
    assert kernels.summary["coverage"]["work_known"] == 1.0
    found = kernels.kernels.sort_values("ts_ns")
    absorbed = 2 * KEYS * HEADS * (2 * LATENT + ROPE)
    assert found["flops"].tolist() == [
        2 * HEADS * REQUESTS * NOPE * LATENT,
        absorbed,
        2 * HEADS * REQUESTS * LATENT * VALUE,
        2 * REQUESTS * CHOSEN * 2 * INNER * HIDDEN,
    ]
    assert found["flops_source"].astype(object).tolist() == ["shape", "annotation", "shape", "shape"]


def test_the_cache_and_the_weights_are_those_of_the_layer(kernels: Any) -> None:
    (step,) = kernels.steps.to_dict("records")
    # One latent and rope part of 2 B a key; packed experts: half a byte and two bytes a group of 32 a weight.
    assert step["kv_bytes"] == KEYS * (LATENT + ROPE) * 2
    # Products inside MLA multiply by the expansion of its latent, which is a weight.
    expansion = HEADS * LATENT * (NOPE + VALUE) * 2
    touched = EXPERTS * (1 - (1 - CHOSEN / EXPERTS) ** REQUESTS)
    experts = touched * 2 * INNER * HIDDEN * (0.5 + 2 / 32)
    assert step["weight_bytes"] == pytest.approx(expansion + experts)
    assert step["flops"] == kernels.kernels["flops"].sum()
