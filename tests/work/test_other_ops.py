"""Everything that is no matrix product: operations an element, and which bytes count."""

from collections.abc import Callable

import pytest

from tracekit.work import OpWork

# call, FLOPs, DRAM bytes
CASES = [
    # Views and allocations move nothing.
    ("aten::view bf16[4,8] =[8,4]", 0, 0),
    ("aten::transpose bf16[4,8] =0 =1", 0, 0),
    ("aten::expand bf16[4,1] =[4,8] =False", 0, 0),
    ("aten::empty =[4,8] =6 - - - -", 0, 0),
    ("aten::split bf16[4,8] =2 =0", 0, 0),
    ("aten::_local_scalar_dense fp32[]", 0, 0),
    # Elementwise: inputs at storage size, the result once.
    ("aten::add fp32[8,16] fp32[8,16] =1", 128, 3 * 128 * 4),
    ("aten::add fp32[8,16] fp32[16] =1", 128, (128 + 16 + 128) * 4),
    ("aten::add fp32[8,16] fp32[8,16]/0,1 =1", 128, (128 + 16 + 128) * 4),
    ("aten::add fp32[8,1] fp32[1,16] =1", 128, (8 + 16 + 128) * 4),
    ("aten::add_ fp32[8,16] fp32[8,16] =1", 128, 3 * 128 * 4),
    ("aten::add fp32[8,16] fp32[8,16] =1 fp32[8,16]", 128, 3 * 128 * 4),
    ("aten::mul bf16[8,16] fp32[8,16]", 128, 128 * (2 + 4 + 4)),
    ("aten::mul bf16[8,16] fp32[]", 128, 256 + 4 + 256),
    ("aten::mul bf16[8,16] =2.0", 128, 128 * 4),
    ("aten::add bf16[8] fp16[8]", 8, 8 * (2 + 2 + 4)),
    ("aten::div int64[8] =2", 8, 8 * (8 + 4)),
    ("aten::eq int64[16,559] =0", 8944, 8944 * 9),
    ("aten::pow fp32[16,559,1024] =2", 9_158_656, 9_158_656 * 8),
    ("aten::rsqrt fp32[16,559,1]", 8944, 8944 * 8),
    ("aten::neg bf16[8,16]", 128, 512),
    ("aten::cos int64[8]", 8, 8 * (8 + 4)),
    ("aten::silu bf16[8,16]", 512, 512),
    ("aten::silu_ bf16[8,16]", 512, 512),
    ("aten::gelu bf16[8,16] =tanh", 1024, 512),
    ("aten::sigmoid fp32[8]", 24, 64),
    ("aten::where bool[8,16] fp32[8,16] fp32[]", 128, 128 + 512 + 4 + 512),
    ("aten::masked_fill_ bf16[888,2880] bool[888,1] =0", 0, 888 * 2880 * 4 + 888),
    ("aten::addcmul fp32[8] fp32[8] fp32[8] =1", 24, 4 * 32),
    ("aten::add fp32[8] fp32[9] =1", None, None),
    # Gates: 5 a result (silu 4, product 1), 3·T·I·b.
    ("_C::silu_and_mul bf16[32,12288] bf16[32,24576]", 5 * 32 * 12288, 3 * 32 * 12288 * 2),
    ("sgl_kernel::silu_and_mul bf16[32,12288] bf16[32,24576]", 5 * 32 * 12288, 3 * 32 * 12288 * 2),
    ("_C::gelu_tanh_and_mul bf16[4,8] bf16[4,16]", 9 * 32, 3 * 64),
    ("_C::silu_and_mul_quant fp8[4,8] bf16[4,16] fp32[]", 6 * 32, 128 + 32),
    # Norms: RMS 4, fused add and RMS 5, layer norm 8 (6 plain); Q = 2TH·b + H·b, fused 4TH·b + H·b.
    ("_C::rms_norm bf16[888,2880] bf16[888,2880] bf16[2880] =1e-05", 4 * 888 * 2880, (2 * 888 * 2880 + 2880) * 2),
    ("_C::fused_add_rms_norm bf16[888,2880] bf16[888,2880] bf16[2880] =1e-05", 5 * 888 * 2880, (4 * 888 * 2880 + 2880) * 2),
    ("aiter::add_rmsnorm bf16[32,4096] bf16[32,4096] bf16[32,4096] bf16[32,4096] bf16[4096] =1e-6", 5 * 32 * 4096, (4 * 32 * 4096 + 4096) * 2),
    ("aiter::rmsnorm bf16[32,4096] bf16[32,4096] bf16[4096] =1e-6", 4 * 32 * 4096, (2 * 32 * 4096 + 4096) * 2),
    ("aten::_fused_rms_norm fp32[4,8] =[8] fp32[8] =1e-6", 128, (64 + 8) * 4),
    ("_C::rms_norm_static_fp8_quant fp8[4,8] bf16[4,8] bf16[8] fp32[] =1e-6", 128, 64 + 32 + 16),
    ("_C::fused_add_rms_norm_static_fp8_quant fp8[4,8] bf16[4,8] bf16[4,8] bf16[8] fp32[] =1e-6", 160, 3 * 64 + 32 + 16),
    ("vllm::rocm_aiter_rmsnorm_fp8_group_quant bf16[4,8] bf16[8] =1e-6 =128", 128, 64 + 32 + 16),
    ("vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant bf16[4,8] bf16[4,8] bf16[8] =1e-6 =128", 160, 3 * 64 + 32 + 16),
    ("vllm::fused_mla_dual_rms_norm bf16[4,8] bf16[8] bf16[4,16] bf16[16] =1e-6 =1e-6", 4 * 96, (2 * 96 + 24) * 2),
    ("aten::native_layer_norm fp32[4,8] =[8] fp32[8] fp32[8] =1e-5", 256, (64 + 16) * 4),
    ("aten::native_layer_norm fp32[4,8] =[8] - - =1e-5", 192, 64 * 4),
    ("aten::native_group_norm fp32[2,8,4,4] fp32[8] fp32[8] =2 =8 =16 =4 =1e-5", 2048, (512 + 16) * 4),
    # Softmax: 5 an element.
    ("aten::_softmax fp32[4,1000] =-1 =False", 20_000, 32_000),
    ("aten::_softmax fp16[4,1000] =-1 =True", 20_000, 8000 + 16_000),
    ("aten::_log_softmax bf16[4,1000] =-1 =False", 20_000, 16_000),
    # Rows, not the table: 2·T·H·b + 8T.
    ("aten::embedding bf16[151936,1024] int64[16,559] =-1 =False =False", 0, 8944 * (2 * 2048 + 8)),
    ("aten::embedding bf16[4,1024] int64[16] =-1 =False =False", 0, 4 * 2048 + 16 * 2048 + 128),
    ("aten::index_select bf16[151936,1024] =0 int64[8944]", 0, 8944 * (2 * 2048 + 8)),
    ("aten::index_select bf16[8,100,4] =1 int64[10]", 0, 2 * 10 * 32 * 2 + 80),
    ("aten::gather fp32[8,1000] =1 int64[8,5] =False", 0, 40 * (8 + 4 + 4)),
    ("aten::scatter_ fp32[8,1000] =1 int64[8,5] fp32[8,5]", 0, 40 * (8 + 4 + 4)),
    ("aten::index_add_ fp32[100,8] =0 int64[5] fp32[5,8] =1", 40, 40 + 3 * 160),
    ("aten::index_put_ fp32[100,8] list[5] fp32[5,8] =False", 0, 2 * 160),
    ("aten::index bf16[8192,2880] list[46]", 0, 46 * (2 * 5760 + 8)),
    ("aten::index bf16[8192,2880] -", None, None),
    # Copies: each byte read once and written once; a cast has two element sizes.
    ("aten::copy_ fp32[8,16] bf16[8,16] =False", 0, 128 * 6),
    ("aten::copy_ bf16[8,16] bf16[8,16]/0,1 =False", 0, 32 + 256),
    ("aten::clone bf16[8,16] =0", 0, 512),
    ("aten::_to_copy bf16[8,16] =6 =0 - - =False -", 0, 128 * 6),
    ("aten::to bf16[8,16] =15 =False =False -", 0, 0),
    ("aten::constant_pad_nd bf16[888,2880] =[0,192] =0", 0, 888 * (2880 + 3072) * 2),
    ("aten::repeat fp32[4] =[3,2]", 0, 16 + 96),
    ("aten::fill_ bf16[888,3072] =0", 0, 888 * 3072 * 2),
    ("aten::zero_ int32[33]", 0, 132),
    ("aten::arange =0 =559 - - - =False", 0, 559 * 8),
    ("aten::flip fp32[4,4] =[0]", 0, 128),
    # Reductions: numel in, the result out.
    ("aten::mean fp32[16,559,1024] =[-1] =True -", 9_158_656, (9_158_656 + 8944) * 4),
    ("aten::sum fp32[8,16]", 128, 129 * 4),
    ("aten::sum fp32[8,16] =[] =False -", 128, 129 * 4),
    ("aten::argmax fp32[32,151936] =-1 =False", 4_861_952, 4_861_952 * 4 + 32 * 8),
    ("aten::max fp32[8,16] =1 =False", 128, 512 + 8 * 12),
    ("aten::all bool[16,559]", 8944, 8945),
    ("aten::var fp32[8,16] =[1] =True =False", 384, 512 + 32),
    ("aten::cumsum int32[32] =0 -", 32, 128 + 256),
    ("aten::logsumexp fp32[8,16] =[1] =False", 384, 512 + 32),
    # Sampling: a radix sort passes once a byte of the key over key and index.
    ("aten::sort fp32[4,1000] =-1 =True", 16_000, 8 * 4000 * 12),
    ("aten::topk fp32[4,1000] =50 =-1 =True =True", 4000, 16_000 + 200 * 12),
    ("aten::multinomial fp32[4,1000] =1 =False -", 8000, 16_000 + 32),
    ("_moe_C::topk_softmax fp32[32,4] int32[32,4] int32[32,4] fp32[32,128]", 5 * 4096, 16_384 + 3 * 512),
    # Quantisation: 3 an element.
    ("_C::static_scaled_fp8_quant fp8[888,512] bf16[888,512] fp32[]", 3 * 888 * 512, 888 * 512 * 3 + 4),
    ("_C::dynamic_per_token_scaled_fp8_quant fp8[888,512] bf16[888,512] fp32[888,1] -", 3 * 888 * 512, 888 * 512 * 3 + 3552),
    ("sgl_kernel::sgl_per_token_group_quant_8bit bf16[8,256] fp8[8,256] fp32[8,2] =128 =1e-10 =-448 =448", 6144, 6144 + 64),
    # Codes and scales as arguments, and as results.
    ("_C::scaled_fp4_quant uint8[8,32] bf16[8,64] int32[128,1] fp32[1]", 1536, 1024 + 256 + 32),
    ("_C::scaled_fp4_quant bf16[8,64] fp32[1] =True", 1536, 1024 + 256 + 32),
    ("vllm::rocm_aiter_group_fp8_quant bf16[8,256] =128 =False", 6144, 4096 + 2048 + 16 * 4),
    ("vllm::mxfp8_quantize bf16[8,64] =True =32", 1536, 1024 + 512 + 16),
    ("trtllm::fp4_quantize bf16[8,64] fp32[1] =16", 1536, 1024 + 256 + 32),  # NVFP4: half a byte, a scale of 1 B a 16
    ("trtllm::fp4_quantize bf16[8,64] - =32 =True", 1536, 1024 + 256 + 16),  # MXFP4: a scale of 1 B a 32
    ("trtllm::mxfp8_quantize bf16[8,64] =True =32", 1536, 1024 + 512 + 16),
    ("trtllm::fp8_quantize_1x128 bf16[8,256]", 6144, 4096 + 2048 + 16 * 4),
    ("trtllm::fp8_quantize_1x128 int64[8,256]", None, None),
    ("tensorrt_llm::quantize_e4m3_per_tensor bf16[8,64]", 1536, 1024 + 512),
    ("trtllm::silu_and_mul bf16[4,16] - -", 5 * 32, 3 * 64),
    ("aten::dequantize int8[8,16]", 256, 128 + 512),
    ("_C::awq_dequantize int32[128,16] fp16[1,128] int32[1,16] =0 =0 =0", 2 * 16_384, 8192 + 256 + 64 + 32_768),
    # KV writes: T·hkv·d·2·(b_in + b_kv) + 8T; the cache's capacity is no traffic.
    ("_C_cache_ops::reshape_and_cache_flash bf16[888,1,64] bf16[888,1,64] uint8[4213816,16,1,64] uint8[4213816,16,1,64] int64[888] - fp32[] fp32[]", 2 * 2 * 888 * 64, 2 * 888 * 64 * 3 + 8 * 888),
    ("_C_cache_ops::reshape_and_cache_flash bf16[32,8,64] bf16[32,8,64] bf16[224304,32,8,64] bf16[224304,32,8,64] int64[32] -", 0, 2 * 32 * 512 * 4 + 256),
    # FlashInfer's compiled modules: 4 x 8 x 64 keys and values read and written, positions; RMS 4 or 5 an element; a gate.
    ("page::append_paged_kv_cache bf16[4,8,64] bf16[4,8,64] int32[4] int32[4] bf16[99,16,8,64] bf16[99,16,8,64] int32[9] int32[5] int32[4] =0", 0, 2 * 4 * 512 * 4 + 8 * 4),
    ("norm::rmsnorm bf16[4,64] bf16[4,64] bf16[64] =0.00001 =False", 4 * 256, (2 * 256 + 64) * 2),
    ("norm::fused_add_rmsnorm bf16[4,64] bf16[4,64] bf16[64] =0.00001 =False", 5 * 256, (4 * 256 + 64) * 2),
    ("silu_and_mul::silu_and_mul bf16[4,64] bf16[4,128] =False", 5 * 256, 3 * 256 * 2),
    ("rope::apply_rope_pos_ids_cos_sin_cache bf16[4,8,64] bf16[4,2,64] bf16[4,8,64] bf16[4,2,64] fp32[999,64] int64[4] =False", 3 * 4 * 640, 2 * 4 * 640 * 2 + 4 * 64 * 4),
    ("_C_cache_ops::concat_and_cache_mla bf16[8,512] bf16[8,64] bf16[1000,16,576] int64[8] - fp32[]", 0, 8 * 576 * 4 + 64),
    ("sglang::store_cache bf16[32,1024] bf16[32,1024] bf16[835874,1024] bf16[835874,1024] int64[32] =2048 =0", 0, 2 * 32 * 1024 * 4 + 256),
    # RoPE: 3 an element; q and k read and written, a row of cos and sin a token.
    ("_C::rotary_embedding int64[32] bf16[32,4096] bf16[32,512] =64 bf16[131072,64] =True", 3 * 32 * 4608, 2 * 32 * 4608 * 2 + 32 * 64 * 2),
    ("_C::rotary_embedding int64[32] bf16[32,4096] bf16[32,512] =128 bf16[131072,64] =True", 3 * 32 * 2304, 2 * 32 * 2304 * 2 + 32 * 64 * 2),
    # Experts: 2·T·k·H·3I operations; with T = 1 exactly k of E experts are read.
    ("vllm::outplace_fused_experts bf16[1,64] bf16[8,64,64] bf16[8,64,32] fp32[1,2] int32[1,2]", 2 * 2 * 64 * 96, 2 * 128 + 2 * (4096 + 2048) * 2),
    # T = 2, k = 2 of E = 4: 4·(1 - (1/2)²) = 3 experts expected.
    ("vllm::inplace_fused_experts bf16[2,64] bf16[4,64,64] bf16[4,64,32] fp32[2,2] int32[2,2]", 2 * 2 * 2 * 64 * 96, 4 * 128 + 3 * (4096 + 2048) * 2),
    ("trtllm::fused_moe bf16[1,64] int32[1,2] fp32[1,2] bf16[8,64,64] bf16[8,64,32] =bf16", 2 * 2 * 64 * 96, 2 * 128 + 2 * (4096 + 2048) * 2),
    ("trtllm::fused_moe bf16[1,64] int32[1,2] fp32[1,2] bf16[8,64,64] bf16[8,64] bf16[8,64,32] bf16[8,64]", 2 * 2 * 64 * 96, 2 * 128 + 2 * (4096 + 2048) * 2),
    ("trtllm::fused_moe bf16[1,64] int32[1,2] fp32[1,2] bf16[8,64,64] bf16[8,32,64]", None, None),
    # R routed rows are expected to touch E(1 - (1 - 1/E)^R) of E experts.
    ("aten::_grouped_mm bf16[96,64] bf16[4,64,32] int32[4]", 2 * 96 * 64 * 32, (6144 + 3072) * 2 + 4 * (1 - 0.75**96) * 4096),
    ("aten::_scaled_grouped_mm fp8[1,64] fp8[4,64,32] fp32[1] fp32[4,32] int32[4]", 2 * 64 * 32, 64 + 4 + 2048 + 128 + 64),
    ("aten::_grouped_mm bf16[1,64] bf16[4,64,32] int32[4]", 2 * 64 * 32, (64 + 2048 + 32) * 2),
    # Two rows touch 4·(1 - (3/4)²) = 1.75 of four; fp8 experts, and scales of rows and of the touched experts.
    ("_C::cutlass_moe_mm bf16[2,32] fp8[2,64] fp8[4,64,32] fp32[2,1] fp32[4,1]", 2 * 2 * 64 * 32, 128 + 8 + 1.75 * (2048 + 4) + 128),
    ("_C::cutlass_moe_mm bf16[2,32] fp8[2,64] fp8[4,32,128]", 2 * 2 * 64 * 32, 128 + 1.75 * 4096 + 128),
    ("_C::cutlass_moe_mm bf16[2,32] fp8[2,64] fp8[4,32,512]", None, None),
    # SGLang's blockwise product has five arrays of pointers before its rows; block scales of 128.
    ("sgl_kernel::fp8_blockwise_scaled_grouped_mm bf16[2,256] int64[4] int64[4] int64[4] int64[4] int64[4] fp8[2,128] fp8[4,128,256] fp32[2,1] fp32[4,1,2]", 2 * 2 * 128 * 256, 256 + 8 + 1.75 * (32_768 + 8) + 1024),
    # nvfp4: two values a byte in rows and weights, a scale of one byte a 16.
    ("_C::cutlass_fp4_group_mm bf16[2,64] uint8[2,32] uint8[4,64,32] fp8[2,4] fp8[4,64,4] fp32[4]", 2 * 2 * 64 * 64, 64 + 8 + 1.75 * (2048 + 256) + 256),
    # int4 experts, widened: one token, two experts of four, group 32 with bf16 scales.
    ("_moe_C::moe_wna16_gemm bf16[1,64] bf16[1,2,32] uint8[4,32,32] bf16[4,32,2] - fp32[1,2] int32[8] int32[4] int32[1] =2", 2 * 2 * 32 * 64, 128 + 2 * (1024 + 128) + 2 * 32 * 2),
    # Marlin's: [E, K/16, 16N/8] of int32; the second product has a row for each token and expert.
    ("_moe_C::moe_wna16_marlin_gemm bf16[1,64] bf16[2,32] int32[4,4,64] - bf16[4,2,32] - - - - - int32[99] int32[8] int32[4] int32[1] fp32[1,2]", 2 * 2 * 32 * 64, 128 + 2 * (1024 + 128) + 128),
    ("sgl_kernel::moe_wna16_marlin_gemm bf16[2,64] bf16[2,32] int32[4,4,64] bf16[4,2,32] - - - int32[99] int32[8] int32[4] int32[1] fp32[1,2]", 2 * 2 * 32 * 64, 256 + 2 * (1024 + 128) + 128),
    ("_moe_C::moe_wna16_marlin_gemm bf16[3,64] bf16[2,32] int32[4,4,64] bf16[4,2,32] fp32[1,2]", None, None),
    # AITER: both layers in one, with and without a gate; and its two stages.
    ("aiter::fmoe_g1u1 bf16[1,64] fp8[1,64] fp8[8,64,64] fp8[8,64,32] int32[9] fp32[9] int32[2] int32[1] =2", 2 * 2 * 64 * 96, 2 * 64 + 2 * (4096 + 2048)),
    ("aiter::fmoe bf16[1,64] bf16[1,64] bf16[8,32,64] bf16[8,64,32] int32[9] fp32[9] int32[2] int32[1] =2", 2 * 2 * 64 * 64, 2 * 128 + 2 * (2048 + 2048) * 2),
    ("aiter::ck_moe_stage1 bf16[1,64] bf16[8,64,64] bf16[8,64,32] int32[9] int32[2] int32[1] bf16[1,2,32] =2", 2 * 2 * 64 * 64, 128 + 2 * 4096 * 2 + 128),
    ("aiter::ck_moe_stage2 bf16[1,2,32] bf16[8,64,64] bf16[8,64,32] int32[9] int32[2] int32[1] bf16[1,64] =2", 2 * 2 * 64 * 32, 128 + 2 * 2048 * 2 + 128),
    ("_moe_C::shuffle_rows bf16[4,16] int32[8] bf16[8,16]", 0, 128 + 32 + 256),
    ("_moe_C::moe_unpermute bf16[8,16] fp32[4,2] int32[8] int32[5] =2 bf16[4,16]", 256, 256 + 32 + 32 + 20 + 128),
    ("sgl_kernel::moe_fused_gate fp32[4,256] fp32[256] =8 =4 =8", 5 * 1024, 4096 + 1024),
    ("trtllm::fused_qk_norm_rope bf16[4,128] =4 =2 =2 =16 =1e-6", 7 * 4 * 6 * 16, 2 * 4 * 6 * 16 * 2),
    ("_moe_C::moe_sum bf16[8,4,16] bf16[8,16]", 512, (512 + 128) * 2),
    ("vllm::moe_forward bf16[888,3072] bf16[888,128] -", None, None),
    # Convolutions: 2·N·Co·C/g·k²·out²; ResNet's first layer makes 112 x 112 of 224 x 224.
    ("aten::convolution fp32[1,3,224,224] fp32[64,3,7,7] - =[2,2] =[3,3] =[1,1] =False =[0,0] =1", 236_027_904, (150_528 + 9408 + 802_816) * 4),
    ("aten::cudnn_convolution fp32[1,3,224,224] fp32[64,3,7,7] =[3,3] =[2,2] =[1,1] =1 =False =False =True", 236_027_904, (150_528 + 9408 + 802_816) * 4),
    ("aten::conv2d fp32[2,8,5,5] fp32[8,1,3,3] fp32[8] =[1,1] =[0,0] =[1,1] =8", 2 * 2 * 72 * 9, (400 + 72 + 144 + 8) * 4),
    ("aten::conv1d fp32[1,4,10] fp32[6,4,3] - =[1] =[1] =[1] =1", 2 * 72 * 10, (40 + 72 + 60) * 4),
    ("aten::convolution fp32[1,3,224,224] fp32[64,3,7,7] - - - - - - -", None, None),
    # State-space scans: 9·B·D·L·N; a decode step 6·B·D·N, its state read and written.
    ("_C::selective_scan_fwd fp32[2,16,32] fp32[2,16,32] fp32[16,4] fp32[2,4,32] fp32[2,4,32]", 9 * 1024 * 4, (1024 + 1024 + 64 + 512 + 1024) * 4),
    ("mamba_ssm::selective_state_update fp32[2,16,4] fp32[2,16]", 6 * 128, 2 * 512 + 2 * 128),
    ("_C::causal_conv1d_fwd bf16[2,16,32] bf16[16,4] -", 2 * 1024 * 4, (2 * 1024 + 64) * 2),
    # A decode step of it reads and writes the last three inputs of each channel.
    ("_C::causal_conv1d_update bf16[2,16] bf16[9,16,3] bf16[16,4] -", 2 * 32 * 4, (2 * 32 + 64 + 2 * 2 * 16 * 3) * 2),
    # Linear attention: 5·B·h·d·dv, past and new states; q, k, v and the result besides.
    ("sgl_kernel::lightning_attention_decode fp32[2,4,1,8] fp32[2,4,1,8] fp32[2,4,1,8] fp32[2,4,8,8] fp32[4] fp32[2,4,1,8] fp32[2,4,8,8]", 5 * 512, (4 * 64 + 2 * 512 + 4) * 4),
    # Gated delta nets and Mamba-2 in vLLM hide their state: what was given, no operations.
    ("vllm::gdn_attention_core bf16[4,96] bf16[4,2] bf16[4,2] bf16[4,2,16]", None, (384 + 8 + 8 + 128) * 2),
    ("vllm::mamba_mixer2 bf16[4,148] bf16[4,64] -", None, (592 + 256) * 2),
    ("vllm::mamba_mixer2 bf16[4,32] bf16[4,32] -", None, None),
    ("vllm::linear_attention bf16[4,32] bf16[4,32] int64[4] -", None, None),
    # A key of MLA is put together of parts; the latent is written to the cache.
    ("sgl_kernel::concat_mla_k bf16[4,2,24] bf16[4,2,16] bf16[4,1,8]", 0, (128 + 32 + 192) * 2),
    ("vllm::unified_mla_kv_cache_update bf16[8,512] bf16[8,1,64] - =fp8 fp32[]", 2 * 8 * 576, 8 * 576 * 3 + 64),
    # Collectives, by what one rank reads and writes.
    ("symm_mem::multimem_all_reduce_ bf16[2557440] - -", None, 2 * 2_557_440 * 2),
    ("vllm::all_gather bf16[1,25136] =-1 =8 -", 0, 9 * 25_136 * 2),
    ("vllm::reduce_scatter fp32[8,16] =0 =4 -", 96, 128 * 4 + 32 * 4),
    ("c10d::_allgather_base_ bf16[8,25136] bf16[1,25136] - =False =-1", 0, 9 * 25_136 * 2),
    ("c10d::_reduce_scatter_base_ bf16[1,16] bf16[8,16] - - =False =-1", 112, (128 + 16) * 2),
    ("c10d::alltoall_base_ bf16[8,16] bf16[8,16] - - -", None, 2 * 128 * 2),
    ("_c10d_functional::reduce_scatter_tensor fp32[8,16] =sum =4 -", 96, 128 * 4 + 32 * 4),
    ("trtllm::allreduce bf16[8,16] - - - - - =[0,1,2,3] =0 =0 =1e-5", 96, 2 * 256),
    ("trtllm::allreduce bf16[8,16] bf16[8,16] bf16[16] - - - =[0,1] =0 =1 =1e-5", 64, 4 * 256),
    ("trtllm::allreduce bf16[8,16] - - - - - -", None, 2 * 256),
    ("trtllm::allgather bf16[1,16] - =[0,1,2,3]", 0, 5 * 32),
    ("trtllm::allgather bf16[1,16] =[1,2] =[0,1]", None, None),
    ("trtllm::reducescatter fp32[8,16] - =[0,1,2,3]", 96, 128 * 4 + 32 * 4),
    # torch.compile: words of the name an element, outer tensors once; a table counts as what is picked from it.
    ("triton_poi_fused__unsafe_view_mul_silu_2 bf16[8,4096,8192] bf16[32768,8192] =268435456", 5 * 268_435_456, 2 * 268_435_456 * 2),
    ("triton_red_fused_add_mean_mul_pow_rsqrt_0 bf16[8,4096,2048] bf16[2048] bf16[8,4096,2048] =32768 =2048", 5 * 67_108_864, (2 * 67_108_864 + 2048) * 2),
    ("triton_poi_fused_embedding_0 int64[32] bf16[201088,64] bf16[32,64] =2048", 0, 32 * 8 + 2 * 2048 * 2),
    ("triton_poi_fused_0 int32[32] bf16[201088,2880] bf16[32,2880]", None, None),
    ("triton_tem_fused_mm_3 bf16[64,64] bf16[64,64] =4096", None, 2 * 4096 * 2),
]  # fmt: skip


@pytest.mark.parametrize(("text", "flops", "dram_bytes"), CASES, ids=[case[0] for case in CASES])
def test_op(
    work_of: Callable[[str], OpWork | None], text: str, flops: float | None, dram_bytes: float | None
) -> None:
    work = work_of(text)
    if flops is None and dram_bytes is None:
        assert work is None
        return
    assert work.flops == flops
    assert work.dram_bytes == pytest.approx(dram_bytes, rel=1e-12)


def test_an_embedding_reads_weights_and_a_kv_write_writes_the_cache(
    work_of: Callable[[str], OpWork | None],
) -> None:
    assert work_of("aten::embedding bf16[1000,8] int64[4] =-1 =False =False").weight_bytes == 4 * 16
    assert (
        work_of(
            "_C_cache_ops::reshape_and_cache bf16[4,2,8] bf16[4,2,8] fp8[9,2,8,1,8] fp8[9,2,8,8] int64[4] -"
        ).kv_bytes
        == 2 * 4 * 16
    )


def test_everything_elementwise_runs_on_the_vector_units(work_of: Callable[[str], OpWork | None]) -> None:
    for text in (
        "aten::add fp32[8] fp32[8] =1",
        "aten::_softmax bf16[4,8] =-1 =False",
        "_C::rms_norm bf16[4,8] bf16[4,8] bf16[8] =1e-5",
    ):
        assert work_of(text).peak == "vector"


@pytest.mark.parametrize(
    ("text", "bus"),
    [
        # nccl-tests: S(n - 1)/n for all-gather and reduce-scatter of the whole message S, twice that for all-reduce.
        ("vllm::all_gather bf16[1,25136] =-1 =8 -", 7 * 25_136 * 2),
        ("vllm::reduce_scatter fp32[8,16] =0 =4 -", 96 * 4),
        ("c10d::_allgather_base_ bf16[8,25136] bf16[1,25136] - =False =-1", 7 * 25_136 * 2),
        ("c10d::_reduce_scatter_base_ bf16[1,16] bf16[8,16] - - =False =-1", 112 * 2),
        ("trtllm::allreduce bf16[8,16] - - - - - =[0,1,2,3] =0 =0 =1e-5", 2 * 256 * 3 / 4),
        ("vllm::all_reduce bf16[8,16] =tp", None),  # the size of the group is not among what is recorded
        ("aten::add fp32[8] fp32[8] =1", None),
    ],
)
def test_bytes_on_the_link(work_of: Callable[[str], OpWork | None], text: str, bus: float | None) -> None:
    assert work_of(text).bus_bytes == bus


# x[T, 64] to two of eight experts of 6144 weights of 2 B, and rows to one of four.
MOE_CALL = "vllm::inplace_fused_experts bf16[{t},64] bf16[8,64,64] bf16[8,64,32] fp32[{t},2] int32[{t},2]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # One token touches its two experts, and 200 tokens all eight, whatever the routing: both are known.
        (MOE_CALL.format(t=1), 0),
        (MOE_CALL.format(t=200), 0),
        # Two tokens touch two to four: 8·(1 - (3/4)²) = 3.5 are expected.
        (MOE_CALL.format(t=2), 3.5 * 6144 * 2),
        ("aten::_grouped_mm bf16[1,64] bf16[4,64,32] int32[4]", 0),
        ("aten::_grouped_mm bf16[2,64] bf16[4,64,32] int32[4]", 1.75 * 64 * 32 * 2),
        # A batch has rows for every expert.
        ("aten::_grouped_mm bf16[4,2,64] bf16[4,64,32]", 0),
        ("_C::cutlass_moe_mm bf16[2,32] fp8[2,64] fp8[4,64,32] fp32[2] fp32[4,32]", 1.75 * (2048 + 128)),
    ],
)
def test_weights_of_an_expected_number_of_experts_are_told_from_known_ones(
    work_of: Callable[[str], OpWork | None], text: str, expected: float
) -> None:
    work = work_of(text)
    assert work is not None
    assert work.expected_bytes == pytest.approx(expected)
    assert not expected or work.weight_bytes == pytest.approx(expected)
