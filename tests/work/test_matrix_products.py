"""Matrix products by their recorded sizes: operations and bytes written out beside each call."""

from collections.abc import Callable

import pytest

from tracekit.work import OpWork

# call, FLOPs, DRAM bytes, weight bytes among them, peak
CASES = [
    # The worked table: bf16, N = K = H = 4096. 17.18 GF and 41.9 MB at M = 512; 33.6 MF and 33.6 MB at M = 1.
    ("aten::mm bf16[512,4096] bf16[4096,4096]", 17_179_869_184, 41_943_040, 33_554_432, "bf16"),
    ("aten::mm bf16[1,4096] bf16[4096,4096]", 33_554_432, 33_570_816, 33_554_432, "bf16"),
    ("aten::mm bf16[64,4096] bf16[4096,4096]", 2_147_483_648, 34_603_008, 33_554_432, "bf16"),
    ("aten::mm bf16[256,4096] bf16[4096,4096]", 8_589_934_592, 37_748_736, 33_554_432, "bf16"),
    # The same weights seen transposed: strides do not change what is read.
    ("aten::mm bf16[1,4096]/4096,1 bf16[4096,4096]/1,4096", 33_554_432, 33_570_816, 33_554_432, "bf16"),
    ("aten::mm fp32[2,3] fp32[3,4]", 48, (6 + 12 + 8) * 4, 48, "fp32"),
    ("aten::mm fp64[2,3] fp64[3,4]", 48, (6 + 12 + 8) * 8, 96, "fp64"),
    ("aten::mm fp16[2,3] fp16[3,4]", 48, (6 + 12 + 8) * 2, 24, "fp16"),
    # out= lists the result as one more input: it is not read.
    ("aten::mm fp32[2,3] fp32[3,4] fp32[2,4]", 48, (6 + 12 + 8) * 4, 48, "fp32"),
    ("aten::mm fp32[0,3] fp32[3,4]", 0, 48, 48, "fp32"),
    ("aten::mm fp32[2,3] fp32[4,3]", None, None, None, None),
    # addmm: the product is of arguments 1 and 2.
    ("aten::addmm fp32[4] fp32[2,3] fp32[3,4] =1 =1", 48, (4 + 6 + 12 + 8) * 4, 64, "fp32"),
    ("aten::addmm fp32[2,4] fp32[2,3] fp32[3,4] =1 =1", 48, (8 + 6 + 12 + 8) * 4, 80, "fp32"),
    ("aten::addmm fp32[2,4] fp32[2,3] fp32[3,4] =0 =1", 48, (6 + 12 + 8) * 4, 48, "fp32"),
    # A bias of [2, 4] that is an expanded [4] is stored once.
    ("aten::addmm fp32[2,4]/0,1 fp32[2,3] fp32[3,4] =1 =1", 48, (4 + 6 + 12 + 8) * 4, 64, "fp32"),
    ("aten::addmm bf16[1024] bf16[8944,1024] bf16[1024,1024] =1 =1", 18_756_927_488, (9_158_656 + 1_048_576 + 9_158_656 + 1024) * 2, 2_099_200, "bf16"),
    ("aten::linear bf16[2,8,16] bf16[32,16] bf16[32]", 2 * 16 * 32 * 16, (256 + 512 + 512 + 32) * 2, 1088, "bf16"),
    ("aten::linear bf16[16] bf16[32,16]", 2 * 32 * 16, (16 + 512 + 32) * 2, 1024, "bf16"),
    ("aten::linear bf16[2,8,16] bf16[32,17]", None, None, None, None),
    ("vllm::rocm_unquantized_gemm bf16[32,2880] bf16[5120,2880] bf16[5120]", 943_718_400, 30_013_440, 29_501_440, "bf16"),
    ("aiter::gemm_a16w16 bf16[32,4096] bf16[6144,4096] - =15 - - -", 1_610_612_736, 50_987_008, 50_331_648, "bf16"),
    ("_rocm_C::wvSplitK fp16[32,16] fp16[1,16] =304", 2 * 32 * 16, (512 + 16 + 32) * 2, 1024, "fp16"),
    ("mkl::_mkl_linear fp32[4,16] fp32[1] fp32[32,16] fp32[32] =4", 4096, (64 + 512 + 128 + 32) * 4, 2176, "fp32"),
    ("mkldnn::_linear_pointwise bf16[4,16] bf16[32,16] bf16[32] =none - -", 4096, (64 + 512 + 128 + 32) * 2, 1088, "bf16"),
    # The packed weight is behind a handle: out and input say its size.
    ("_C::onednn_mm bf16[8,32] bf16[8,16] bf16[32] =94", 8192, (256 + 128 + 512 + 32) * 2, 1088, "bf16"),
    ("trtllm::cublas_mm bf16[2,3] bf16[3,4] - -", 48, (6 + 12 + 8) * 2, 24, "bf16"),
    # Batches: no weights.
    ("aten::bmm fp32[5,2,3] fp32[5,3,4]", 240, 5 * (6 + 12 + 8) * 4, 0, "fp32"),
    ("aten::bmm fp32[5,2,3]/6,3,1 fp32[5,3,4]/0,4,1", 240, (5 * 6 + 12 + 5 * 8) * 4, 0, "fp32"),
    ("aten::baddbmm fp32[5,2,4] fp32[5,2,3] fp32[5,3,4] =1 =1", 240, 5 * (8 + 6 + 12 + 8) * 4, 0, "fp32"),
    ("aten::baddbmm fp32[5,2,4] fp32[5,2,3] fp32[5,3,4] =0 =1", 240, 5 * (6 + 12 + 8) * 4, 0, "fp32"),
    ("aten::bmm fp32[5,2,3] fp32[4,3,4]", None, None, None, None),
    ("aten::mv fp32[8,16] fp32[16]", 256, (128 + 16 + 8) * 4, 512, "fp32"),
    ("aten::addmv fp32[8] fp32[8,16] fp32[16] =1 =1", 256, (8 + 128 + 16 + 8) * 4, 544, "fp32"),
    ("aten::dot fp32[16] fp32[16]", 32, 33 * 4, 0, "vector"),
    ("aten::matmul fp32[2,5,2,3] fp32[3,4]", 480, (60 + 12 + 80) * 4, 48, "fp32"),
    ("aten::matmul fp32[5,2,3] fp32[1,3,4]", 240, (30 + 12 + 40) * 4, 0, "fp32"),
    ("aten::matmul fp32[3] fp32[3]", 6, 7 * 4, 12, "fp32"),
    ("aten::matmul fp32[5,2,3] fp32[4,3,4]", None, None, None, None),
    # fp8: one byte an operand, scales as recorded, bf16 out unless argument 6 says so (6 is float).
    ("aten::_scaled_mm fp8[64,128] fp8[128,256] fp32[] fp32[] - - =15", 4_194_304, 8192 + 32768 + 32768 + 8, 32768, "fp8"),
    ("aten::_scaled_mm fp8[64,128] fp8[128,256] fp32[] fp32[] - - =6", 4_194_304, 8192 + 32768 + 65536 + 8, 32768, "fp8"),
    ("aten::_scaled_mm fp8[64,128] fp8[128,256] fp32[] fp32[] - - -", 4_194_304, 8192 + 32768 + 32768 + 8, 32768, "fp8"),
    # Scales by row: 4(M + N) B.
    ("aten::_scaled_mm fp8[64,128] fp8[128,256] fp32[64,1] fp32[1,256] - - =15", 4_194_304, 8192 + 32768 + 32768 + 1280, 32768, "fp8"),
    # Scales by 1x128 and 128x128 block: 4(M·K/128 + N·K/128^2) B.
    ("aten::_scaled_mm fp8[64,128] fp8[128,256] fp32[64,1] fp32[1,2] - - =15", 4_194_304, 8192 + 32768 + 32768 + 264, 32768, "fp8"),
    # mxfp8: one e8m0 scale of a byte a block of 32.
    ("aten::_scaled_mm fp8[64,128] fp8[128,256] fp8[64,4] fp8[256,4] - - =15", 4_194_304, 8192 + 32768 + 32768 + 256 + 1024, 32768, "fp8"),
    # The second form takes lists of scales: by row (recipe 1) four bytes each, by blocks of 32 (recipe 3) one.
    ("aten::_scaled_mm_v2 fp8[64,128] fp8[128,256] list[64,1] =[1] =[0] list[1,256] =[1] =[0] - =15", 4_194_304, 8192 + 32768 + 32768 + 1280, 32768, "fp8"),
    ("aten::_scaled_mm_v2 fp8[64,128] fp8[128,256] list[64,4] =[3] =[1] list[256,4] =[3] =[1] - =6", 4_194_304, 8192 + 32768 + 65536 + 1280, 32768, "fp8"),
    # nvfp4: two values a byte, so K = 256, and one fp8 scale a block of 16.
    ("aten::_scaled_mm fp4[64,128] fp4[128,256] fp8[64,16] fp8[256,16] - - =15", 8_388_608, 8192 + 32768 + 32768 + 1024 + 4096, 32768, "fp4"),
    ("aten::_int_mm int8[32,64] int8[64,128]", 524_288, 2048 + 8192 + 32 * 128 * 4, 8192, "int8"),
    ("_C::cutlass_scaled_mm bf16[64,256] fp8[64,128] fp8[128,256] fp32[1] fp32[1] -", 4_194_304, 8192 + 32768 + 32768 + 8, 32768, "fp8"),
    ("_C::cutlass_scaled_mm bf16[64,256] int8[64,128] int8[128,256] fp32[64,1] fp32[256,1] bf16[256]", 4_194_304, 8192 + 32768 + 32768 + 1280 + 512, 32768, "int8"),
    ("_C::onednn_scaled_mm bf16[64,256] int8[64,128] fp32[64] - - bf16[256] =94", 4_194_304, 8192 + 32768 + 32768 + 256 + 512, 32768, "int8"),
    ("_C::cutlass_scaled_fp4_mm bf16[64,256] uint8[64,64] uint8[256,64] fp8[64,8] fp8[256,8] fp32[]", 4_194_304, 4096 + 16384 + 32768 + 512 + 2048, 16384, "fp4"),
    ("sgl_kernel::fp8_scaled_mm fp8[64,128] fp8[128,256] fp32[64,1] fp32[256,1] =15 -", 4_194_304, 8192 + 32768 + 32768 + 1280, 32768, "fp8"),
    ("vllm::apply_w8a8_block_fp8_linear bf16[64,128] fp8[256,128] =[128,128] fp32[2,1]", 4_194_304, 16384 + 32768 + 32768 + 8, 32768, "fp8"),
    # int4, group 128: 0.516 B a weight with 2-byte scales (0.5 + 2/128); the math runs at bf16.
    ("_C::gptq_gemm fp16[1,4096] int32[512,4096] int32[32,512] fp16[32,4096] int32[4096] =True =4", 33_554_432, 8192 + 8_388_608 + 262_144 + 65_536 + 8192, 8_716_288, "fp16"),
    ("_C::awq_gemm fp16[16,4096] int32[4096,512] fp16[32,4096] int32[32,512] =8", 536_870_912, 131_072 + 8_388_608 + 262_144 + 65_536 + 131_072, 8_716_288, "fp16"),
    ("_C::gptq_marlin_gemm bf16[1,4096] - int32[256,8192] - bf16[32,4096]", 33_554_432, 8192 + 8_388_608 + 262_144 + 8192, 8_650_752, "bf16"),
    # Packed sizes that hold 64 bits a weight are no int4 weight.
    ("_C::gptq_marlin_gemm bf16[1,4096] - int32[4096,8192] - bf16[32,4096]", None, None, None, None),
    ("aten::_weight_int4pack_mm bf16[1,4096] int32[512,32,32,4] =128 bf16[32,4096,2]", 33_554_432, 8192 + 8_388_608 + 524_288 + 8192, 8_912_896, "bf16"),
    ("aten::_weight_int4pack_mm_for_cpu bf16[1,4096] uint8[4096,2048] =128 bf16[32,4096,2]", 33_554_432, 8192 + 8_388_608 + 524_288 + 8192, 8_912_896, "bf16"),
    ("aten::_weight_int8pack_mm bf16[1,4096] int8[4096,4096] bf16[4096]", 33_554_432, 8192 + 16_777_216 + 8192 + 8192, 16_785_408, "bf16"),
    ("aten::_dyn_quant_matmul_4bit fp32[2,128] uint8[8448] =32 =128 =128", 65_536, 1024 + 8448 + 1024, 8448, "int8"),
    ("trtllm::nvfp4_gemm uint8[64,64] uint8[256,64] fp8[512] fp8[2048] fp32[]", 4_194_304, 4096 + 16384 + 32768 + 512 + 2048, 16384, "fp4"),
    # TensorRT-LLM: block scales of 128, and the router of DeepSeek-V3.
    ("trtllm::fp8_block_scaling_gemm fp8[32,256] fp8[512,256] fp32[2,32] fp32[4,2]", 2 * 32 * 512 * 256, 8192 + 131_072 + 32_768 + 256 + 32, 131_072, "fp8"),
    ("trtllm::fp8_block_scaling_gemm fp8[32,256] fp8[256,512] fp32[2,32] fp32[4,2]", None, None, None, None),
    ("trtllm::dsv3_router_gemm_op bf16[4,7168] bf16[7168,256] - =6", 2 * 4 * 7168 * 256, (4 * 7168 + 7168 * 256 + 4 * 256) * 2, 7168 * 256 * 2, "bf16"),
    # Engines' names for a linear layer: [N, K] or [K, N], scales and bias as recorded, out in 16 bits.
    ("vllm::rocm_aiter_w8a8_gemm fp8[8,128] fp8[256,128] fp32[8,1] fp32[256,1] bf16[256] -", 2 * 8 * 256 * 128, 1024 + 32_768 + 4096 + 32 + 1024 + 512, 32_768, "fp8"),
    ("vllm::rocm_per_tensor_float_w8a8_scaled_mm_impl fp8[8,128] fp8[128,256] =15 fp32[] fp32[] -", 2 * 8 * 256 * 128, 1024 + 32_768 + 4096 + 8, 32_768, "fp8"),
    ("vllm::fp8_gemm_nt_op fp8[8,128] fp32[8,1] fp8[256,128] fp32[2,1] bf16[8,256] =True", 2 * 8 * 256 * 128, 1024 + 32_768 + 4096 + 32 + 8, 32_768, "fp8"),
    ("vllm::fp8_gemm_nt_op fp8[8,128] fp32[8,1] fp8[256,128] fp32[2,1] bf16[8,99] =True", None, None, None, None),
    ("vllm::flashinfer_fp8_blockscale_gemm bf16[8,128] fp8[256,128] fp32[2,1]", 2 * 8 * 256 * 128, 2048 + 32_768 + 4096 + 8, 32_768, "fp8"),
    ("vllm::matmul_nvf4_bf16 uint8[8,64] uint8[256,64] fp8[8,8] fp8[256,8] fp32[]", 2 * 8 * 256 * 128, 512 + 16_384 + 4096 + 64 + 2048, 16_384, "fp4"),
    # Packed 4-bit weights under activations of 16 bits: quantised on the way, or the weights widened.
    ("vllm::gemm_with_dynamic_quant bf16[8,128] uint8[256,64] uint8[256,4] =False =15 -", 2 * 8 * 256 * 128, 2048 + 16_384 + 4096 + 1024, 16_384, "fp4"),
    ("sglang::fp4_gemm bf16[8,128] uint8[256,64] - fp8[256,8] fp32[] =15 =256", 2 * 8 * 256 * 128, 2048 + 16_384 + 4096 + 2048, 16_384, "bf16"),
    ("sglang::fp4_gemm uint8[8,64] uint8[256,64] fp8[8,8] fp8[256,8] fp32[] =15 =256", 2 * 8 * 256 * 128, 512 + 16_384 + 4096 + 64 + 2048, 16_384, "fp4"),
    ("sglang::deep_gemm_fp8_fp8_bf16_nt fp8[8,128] fp32[8,1] fp8[256,128] fp32[2,1] bf16[8,256] =128 =128", 2 * 8 * 256 * 128, 1024 + 32_768 + 4096 + 32 + 8, 32_768, "fp8"),
    ("sgl_kernel::dsv3_router_gemm fp32[4,256] bf16[4,7168] bf16[256,7168]", 2 * 4 * 7168 * 256, (4 * 7168 + 7168 * 256) * 2 + 4 * 256 * 4, 7168 * 256 * 2, "bf16"),
    ("aiter::gemm_a8w8_bpreshuffle_ck fp8[8,128] fp8[256,128] fp32[8,1] fp32[256,1] bf16[8,256]", 2 * 8 * 256 * 128, 1024 + 32_768 + 4096 + 32 + 1024, 32_768, "fp8"),
    # vLLM's wrapper of Marlin puts a bias before the scales.
    ("vllm::marlin_gemm bf16[1,4096] int32[256,8192] bf16[4096] bf16[32,4096] - - - int32[9]", 33_554_432, 8192 + 8_388_608 + 262_144 + 8192, 8_650_752, "bf16"),
    ("vllm::triton_w4a16_gemm bf16[1,4096] int32[4096,512] bf16[32,4096] - =128 =8", 33_554_432, 8192 + 8_388_608 + 262_144 + 8192, 8_650_752, "bf16"),
    ("sglang::unified_apply_gptq_marlin_gemm bf16[1,4096] int32[256,8192] bf16[32,4096] int32[0] int32[0] int32[0] int32[9] =4096 =4096", 33_554_432, 8192 + 8_388_608 + 262_144 + 8192, 8_650_752, "bf16"),
    # Machete, Marlin with a bias and a second output, 8-bit Marlin, and SGLang's products.
    ("_C::machete_mm bf16[1,4096] int32[512,4096] =4 =15 bf16[32,4096] - =128 - - - - -", 33_554_432, 8192 + 8_388_608 + 262_144 + 8192, 8_650_752, "bf16"),
    ("_C::marlin_gemm bf16[1,4096] - int32[256,8192] bf16[4096] bf16[32,4096] - - - - - int32[9]", 33_554_432, 8192 + 8_388_608 + 262_144 + 8192, 8_650_752, "bf16"),
    ("sglang::apply_fp8_marlin_linear bf16[1,4096] int32[256,16384] bf16[1,4096] int32[9] =4096 =4096 - =True", 33_554_432, 8192 + 16_777_216 + 8192 + 8192, 16_785_408, "bf16"),
    ("sgl_kernel::fp8_blockwise_scaled_mm fp8[64,128] fp8[128,256] fp32[64,1] fp32[1,2] =15", 4_194_304, 8192 + 32768 + 32768 + 264, 32768, "fp8"),
    ("sgl_kernel::int8_scaled_mm int8[64,128] int8[128,256] fp32[64,1] fp32[256,1] =15 -", 4_194_304, 8192 + 32768 + 32768 + 1280, 32768, "int8"),
    ("sgl_kernel::weight_packed_linear bf16[2,8,16] bf16[32,16] bf16[32] =True", 2 * 16 * 32 * 16, (256 + 512 + 512 + 32) * 2, 1088, "bf16"),
    ("sgl_kernel::bmm_cpu bf16[5,2,4] bf16[5,2,3] bf16[5,4,3] =True -", 240, 5 * (6 + 12 + 8) * 2, 0, "bf16"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "flops", "dram_bytes", "weight_bytes", "peak"), CASES, ids=[case[0] for case in CASES]
)
def test_product(
    work_of: Callable[[str], OpWork | None],
    text: str,
    flops: float | None,
    dram_bytes: float | None,
    weight_bytes: float | None,
    peak: str | None,
) -> None:
    work = work_of(text)
    if flops is None:
        assert work is None
        return
    assert (work.flops, work.dram_bytes, work.weight_bytes, work.peak) == (
        flops,
        dram_bytes,
        weight_bytes,
        peak,
    )


def test_the_worked_table_of_a_square_layer_in_its_own_units(work_of: Callable[[str], OpWork | None]) -> None:
    # 2·512·4096² = 17.18 GF; I(M) = M·H/(2M + H) = 410 at M = 512, 62 at M = 64, 228 at M = 256.
    for rows, intensity in ((512, 410), (64, 62), (256, 228), (1, 1.0)):
        work = work_of(f"aten::mm bf16[{rows},4096] bf16[4096,4096]")
        assert work.flops / work.dram_bytes == pytest.approx(intensity, rel=0.005)


def test_int4_weights_take_0_516_bytes_a_weight(work_of: Callable[[str], OpWork | None]) -> None:
    work = work_of("_C::gptq_marlin_gemm bf16[1,4096] - int32[256,8192] - bf16[32,4096]")
    assert work.weight_bytes / 4096**2 == pytest.approx(0.516, abs=0.0005)
