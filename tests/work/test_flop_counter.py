"""torch.utils.flop_counter agrees on every op that it counts and counts rightly; each difference is named."""

from collections.abc import Callable
from typing import Any

import pytest

from tracekit.work import OpWork
from tracekit.work.registered import find

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install tracekit-llm[collect]")
flop_counter = pytest.importorskip(
    "torch.utils.flop_counter", reason="needs a PyTorch with torch.utils.flop_counter"
)

pytestmark = pytest.mark.torch
aten = torch.ops.aten


def counted(operation: Callable[..., object], *sizes: tuple[int, ...], **options: int) -> int:
    """FLOPs that torch counts for an op over meta tensors."""
    with flop_counter.FlopCounterMode(display=False) as mode:
        operation(*(torch.empty(size, device="meta") for size in sizes), **options)
    return mode.get_total_flops()


def scaled_mm(a: Any, b: Any) -> object:
    """A product of fp8 operands, whose second lies column by column."""
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t().contiguous().t()
    scale = torch.empty((), device="meta")
    return aten._scaled_mm(a, b, scale, scale)


AGREE = [
    ("aten::mm fp32[12,34] fp32[34,56]", aten.mm, ((12, 34), (34, 56))),
    ("aten::mm fp32[1,34] fp32[34,56]", aten.mm, ((1, 34), (34, 56))),
    ("aten::addmm fp32[56] fp32[12,34] fp32[34,56] =1 =1", aten.addmm, ((56,), (12, 34), (34, 56))),
    ("aten::bmm fp32[5,12,34] fp32[5,34,56]", aten.bmm, ((5, 12, 34), (5, 34, 56))),
    ("aten::baddbmm fp32[5,12,56] fp32[5,12,34] fp32[5,34,56] =1 =1", aten.baddbmm, ((5, 12, 56), (5, 12, 34), (5, 34, 56))),
    ("aten::linear fp32[2,6,34] fp32[56,34] fp32[56]", torch.nn.functional.linear, ((2, 6, 34), (56, 34), (56,))),
    ("aten::matmul fp32[5,12,34] fp32[5,34,56]", torch.matmul, ((5, 12, 34), (5, 34, 56))),
    ("aten::conv2d fp32[2,3,16,16] fp32[8,3,3,3] - =[2,2] =[1,1] =[1,1] =1", torch.nn.functional.conv2d, ((2, 3, 16, 16), (8, 3, 3, 3)), {"stride": 2, "padding": 1}),
    ("aten::_scaled_mm fp8[16,32] fp8[32,64] fp32[] fp32[] - - =15", scaled_mm, ((16, 32), (32, 64))),
    ("aten::conv1d fp32[2,3,16] fp32[8,3,3] - =[1] =[0] =[1] =1", torch.nn.functional.conv1d, ((2, 3, 16), (8, 3, 3))),
]  # fmt: skip


@pytest.mark.parametrize("case", AGREE, ids=[case[0] for case in AGREE])
def test_torch_counts_the_same(work_of: Callable[[str], OpWork | None], case: tuple[Any, ...]) -> None:
    text, operation, sizes, *options = case
    assert work_of(text).flops == counted(operation, *sizes, **(options[0] if options else {}))


# Attention of 2 batches, 4 heads, 16 queries and 24 keys of 8, as SDPA orders it and as flash does; not causal.
Q, K = "fp32[2,4,16,8]", "fp32[2,4,24,8]"
FLASH_Q, FLASH_K = "fp32[2,16,4,8]", "fp32[2,24,4,8]"
FORWARD = [
    f"aten::_scaled_dot_product_flash_attention {Q} {K} {K} =0. =False =False",
    f"aten::_scaled_dot_product_efficient_attention {Q} {K} {K} - =False =0. =False",
    f"aten::_scaled_dot_product_cudnn_attention {Q} {K} {K} - =False =0. =False =False",
    f"aten::_flash_attention_forward {FLASH_Q} {FLASH_K} {FLASH_K} - - =16 =24 =0. =False =False",
    f"aten::_efficient_attention_forward {FLASH_Q} {FLASH_K} {FLASH_K} - - - =16 =24 =0. =0",
]
BACKWARD = [
    f"aten::_scaled_dot_product_flash_attention_backward {Q} {Q} {K} {K} {Q} fp32[2,4,16] - - =16 =24 =0. =False",
    f"aten::_scaled_dot_product_efficient_attention_backward {Q} {Q} {K} {K} - {Q} fp32[2,4,16] - - =0. =[True] =False",
    f"aten::_scaled_dot_product_cudnn_attention_backward {Q} {Q} {K} {K} {Q} fp32[2,4,16] - - - - - =16 =24 =0. =False",
    f"aten::_flash_attention_backward {FLASH_Q} {FLASH_Q} {FLASH_K} {FLASH_K} {FLASH_Q} fp32[2,4,16] - - =16 =24 =0. =False",
    f"aten::_efficient_attention_backward {FLASH_Q} {FLASH_Q} {FLASH_K} {FLASH_K} - {FLASH_Q} - - =16 =24 fp32[2,4,16] =0. - - =0",
]


@pytest.mark.parametrize("text", FORWARD)
def test_dense_attention_is_the_same(work_of: Callable[[str], OpWork | None], text: str) -> None:
    sizes = (2, 4, 16, 8), (2, 4, 24, 8), (2, 4, 24, 8)
    assert work_of(text).flops == flop_counter.sdpa_flop_count(*sizes) == 4 * 2 * 4 * 8 * 16 * 24


@pytest.mark.parametrize("text", BACKWARD)
def test_the_backward_pass_of_attention_is_the_same(
    work_of: Callable[[str], OpWork | None], text: str
) -> None:
    query, key = (2, 4, 16, 8), (2, 4, 24, 8)
    counted_by_torch = flop_counter.sdpa_backward_flop_count(query, query, key, key)
    assert work_of(text).flops == counted_by_torch == 10 * 2 * 4 * 8 * 16 * 24


@pytest.mark.parametrize(("mask", "share"), [((True, True, False), 2), ((False, True, False), 1)])
def test_the_backward_pass_of_a_convolution_is_the_same(
    work_of: Callable[[str], OpWork | None], mask: tuple[bool, ...], share: int
) -> None:
    def backward(grad: Any, x: Any, w: Any) -> object:
        return aten.convolution_backward(
            grad, x, w, [0], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, list(mask)
        )

    text = f"aten::convolution_backward fp32[1,4,6,6] fp32[1,3,8,8] fp32[4,3,3,3] =[0] =[1,1] =[0,0] =[1,1] =False =[0,0] =1 ={str(list(mask)).replace(' ', '')}"
    sizes = (1, 4, 6, 6), (1, 3, 8, 8), (4, 3, 3, 3)
    assert work_of(text).flops == counted(backward, *sizes) == share * 2 * 108 * 36


def test_the_slow_convolution_is_the_same(work_of: Callable[[str], OpWork | None]) -> None:
    # torch 2.13 registers its formula for this op, which then lacks an argument and raises: so the formula itself.
    formula = flop_counter.conv_flop_count([2, 3, 16, 16], [8, 3, 3, 3], [2, 8, 8, 8])
    text = "aten::_slow_conv2d_forward fp32[2,3,16,16] fp32[8,3,3,3] =[3,3] - =[2,2] =[1,1]"
    assert work_of(text).flops == formula == 2 * 2 * 216 * 64


# A profiler records no op of that name with sizes: compiled it is a Triton template, eager its inner ops.
NOT_RECORDED = {"flex_attention", "flex_attention_backward"}


def test_every_op_that_torch_counts_has_a_model_or_is_named() -> None:
    counted_by_torch = {str(op).replace(".", "::", 1) for op in flop_counter.flop_registry}
    without = {name for name in counted_by_torch if find(name) is None}
    assert without <= NOT_RECORDED


def test_difference_groups_torch_counts_the_weights_gradient_for_all_channels(
    work_of: Callable[[str], OpWork | None],
) -> None:
    def backward(grad: Any, x: Any, w: Any) -> object:
        return aten.convolution_backward(
            grad, x, w, [0], [1, 1], [0, 0], [1, 1], False, [0, 0], 2, [False, True, False]
        )

    work = work_of(
        "aten::convolution_backward fp32[1,4,6,6] fp32[1,6,8,8] fp32[4,3,3,3] =[0] =[1,1] =[0,0] =[1,1] =False =[0,0] =2 =[False,True,False]"
    )
    # Each of two groups has 3 of 6 input channels: torch lets every output meet all 6.
    assert counted(backward, (1, 4, 6, 6), (1, 6, 8, 8), (4, 3, 3, 3)) == 2 * work.flops


def test_difference_causal_torch_does_not_halve_a_causal_mask(
    work_of: Callable[[str], OpWork | None],
) -> None:
    tensor = "fp32[2,4,16,8]"
    work = work_of(f"aten::_scaled_dot_product_flash_attention {tensor} {tensor} {tensor} =0. =True =False")
    full = flop_counter.sdpa_flop_count(*[(2, 4, 16, 8)] * 3)
    assert work.flops / full == 136 / 256


def test_difference_cpu_torch_counts_no_attention_on_a_cpu(work_of: Callable[[str], OpWork | None]) -> None:
    q = torch.zeros(1, 2, 16, 8)
    with flop_counter.FlopCounterMode(display=False) as mode, torch.no_grad():
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
    tensor = "fp32[1,2,16,8]"
    work = work_of(f"aten::_scaled_dot_product_flash_attention_for_cpu {tensor} {tensor} {tensor} =0. =False")
    assert work.flops == 4 * 2 * 8 * 256
    assert mode.get_total_flops() in {0, work.flops}


def test_difference_convolution_transposed_counts_inputs(work_of: Callable[[str], OpWork | None]) -> None:
    # Each of the 4 x 4 inputs meets the 3 x 3 kernel once: 2·1·(3·8·9)·16.
    work = work_of("aten::convolution fp32[1,3,4,4] fp32[3,8,3,3] - =[2,2] =[0,0] =[1,1] =True =[0,0] =1")
    assert work.flops == 2 * 216 * 16
    assert work.flops == counted(torch.nn.functional.conv_transpose2d, (1, 3, 4, 4), (3, 8, 3, 3), stride=2)


def test_difference_grouped_torch_counts_no_grouped_product(work_of: Callable[[str], OpWork | None]) -> None:
    if not hasattr(torch, "_grouped_mm"):
        pytest.skip("needs a PyTorch with grouped products")
    rows, weights = (torch.zeros(size, dtype=torch.bfloat16) for size in ((96, 64), (4, 64, 32)))
    offsets = torch.tensor([24, 48, 72, 96], dtype=torch.int32)
    with flop_counter.FlopCounterMode(display=False) as mode:
        torch._grouped_mm(rows, weights, offsets)
    work = work_of("aten::_grouped_mm bf16[96,64] bf16[4,64,32] int32[4]")
    # Every row meets the 64 x 32 matrix of its group. Some releases run it as products that they do count.
    assert work.flops == 2 * 96 * 64 * 32
    assert mode.get_total_flops() in {0, work.flops}
