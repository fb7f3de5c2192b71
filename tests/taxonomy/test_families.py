"""What a kernel's name tells: family, type of the math, and whether only one phase runs it."""

from pathlib import Path

import pandas as pd
import pytest

from tracekit.taxonomy import name_families


def named(*names: str, kind: str = "kernel", op: str | None = None) -> pd.DataFrame:
    rows = pd.DataFrame({"name": list(names), "kind": kind, "op": pd.Series([op] * len(names), dtype=object)})
    return name_families(rows.astype({"name": "category", "kind": "category", "op": "category"}))


@pytest.mark.parametrize(
    ("name", "family"),
    [
        # The order of the rows matters for each of these.
        ("triton_poi_fused__unsafe_view_mul_silu_2", "act"),
        ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", "norm"),
        ("fused_recurrent_gated_delta_rule_fwd_kernel", "ssm"),
        ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int>>>()", "attn"),
        ("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<int>>()", "gemm"),
        ("void flash::flash_fwd_splitkv_combine_kernel<int>()", "attn.combine"),
        ("void fbgemm_gpu::permute_2D_data_kernel<true, int>()", "sparse"),
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdIfEEEEvT_", "norm"),
        ("a_kernel_nobody_knows", "other"),
    ],
)
def test_family(name: str, family: str) -> None:
    assert named(name)["family"].tolist() == [family]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "bf16"),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>()", "tf32"),
        ("ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_nn", "fp16"),
        ("ampere_fp16_sgemm_fp16_128x64_tn", "fp32"),  # half storage, FP32 multiply-adds
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", "bf16"),  # FP4 weights are widened first
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2", "fp8"),  # FP4 times FP8 runs at the rate of FP8
        (
            "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0>()",
            "bf16",
        ),
        ("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1", "fp32"),
        ("_topk_forward", None),
    ],
)
def test_dtype_of_the_math(name: str, dtype: str | None) -> None:
    assert named(name)["name_dtype"].astype(object).where(lambda word: word.notna(), None).tolist() == [dtype]


@pytest.mark.parametrize(
    ("name", "tile", "tokens"),
    [
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT16x32x512_MI16x16x1", "16x32x512", 32),
        ("nvjet_tst_192x8_64x8_4x1_v_bz_TNT", "192x8x64", 8),  # the head of a prefill: one row
        ("bmm_Bfloat16_E2m1E2m1_Fp32_t128x8x512", "128x8x512", None),  # tokens of one expert
        ("ampere_sgemm_128x64_tn", "128x64", 64),
        ("triton_tem_fused_mm_3", None, None),
        ("void at::native::reduce_kernel<512, 1>(int)", None, None),
    ],
)
def test_tile_and_the_side_that_meets_the_tokens(name: str, tile: str | None, tokens: float | None) -> None:
    row = named(name)[["name_tile", "tile_tokens"]].astype(object)
    assert row.where(row.notna(), None).to_numpy().tolist() == [[tile, tokens]]


@pytest.mark.parametrize(
    ("name", "phase", "weight"),
    [
        ("kernel_unified_attention_3d", "decode", 0.9),
        ("void flash::flash_fwd_kernel<int>()", "prefill", 0.8),
        ("void flashinfer::PODWithKVCacheTensorKernel<int>()", "mixed", 0.9),
    ],
)
def test_kernels_that_only_one_phase_runs(name: str, phase: str, weight: float) -> None:
    row = named(name)
    assert (row["phase_hint"].tolist(), row["phase_hint_weight"].tolist()) == ([phase], [weight])


@pytest.mark.parametrize(
    "name",
    [
        # FlashInfer runs decode with its prefill kernel, FlashAttention-2 pages every cache with split-KV,
        # FlashAttention-3 has one kernel for both.
        "void flashinfer::BatchPrefillWithPagedKVCacheKernel<int>()",
        "void flash::flash_fwd_splitkv_kernel<int>()",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int>>>()",
        "kernel_unified_attention_2d",
        "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT",
    ],
)
def test_names_that_both_phases_run_decide_nothing(name: str) -> None:
    assert named(name)["phase_hint"].isna().all()


def test_a_cpu_row_is_named_by_its_op_and_has_no_type_or_hint() -> None:
    row = named("aten::addmm", kind="cpu_op", op="aten::addmm")
    assert row["family"].tolist() == ["gemm"]
    assert row[["name_dtype", "phase_hint", "phase_hint_weight"]].isna().all(axis=None)


def test_a_view_touches_no_data() -> None:
    assert named("aten::as_strided", kind="cpu_op", op="aten::as_strided")["family"].tolist() == ["view"]


def test_a_kernel_whose_name_says_nothing_takes_the_family_of_its_op() -> None:
    assert named("k_1", op="_C::rms_norm")["family"].tolist() == ["norm"]


def test_rows_of_a_user_come_first(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "mine.toml").write_text(
        '[[row]]\nkey = "gemm"\npattern = "^my_"\nexamples = ["my_softmax"]\nsource = "me"\n',
        encoding="utf-8",
    )
    rows = pd.DataFrame({"name": ["my_softmax"], "kind": ["kernel"], "op": [None]})
    assert name_families(rows, (tmp_path,))["family"].tolist() == ["gemm"]


def test_an_empty_table_gets_the_columns() -> None:
    assert {"family", "name_dtype", "phase_hint", "phase_hint_weight"} <= set(named().columns)
