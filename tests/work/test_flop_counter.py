"""torch.utils.flop_counter agrees on every op that it counts and counts rightly; each difference is named."""

from collections.abc import Callable
from typing import Any

import pytest

from tracekit.work import OpWork

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


AGREE = [
    ("aten::mm fp32[12,34] fp32[34,56]", aten.mm, ((12, 34), (34, 56))),
    ("aten::mm fp32[1,34] fp32[34,56]", aten.mm, ((1, 34), (34, 56))),
    ("aten::addmm fp32[56] fp32[12,34] fp32[34,56] =1 =1", aten.addmm, ((56,), (12, 34), (34, 56))),
    ("aten::bmm fp32[5,12,34] fp32[5,34,56]", aten.bmm, ((5, 12, 34), (5, 34, 56))),
    ("aten::baddbmm fp32[5,12,56] fp32[5,12,34] fp32[5,34,56] =1 =1", aten.baddbmm, ((5, 12, 56), (5, 12, 34), (5, 34, 56))),
    ("aten::linear fp32[2,6,34] fp32[56,34] fp32[56]", torch.nn.functional.linear, ((2, 6, 34), (56, 34), (56,))),
    ("aten::matmul fp32[5,12,34] fp32[5,34,56]", torch.matmul, ((5, 12, 34), (5, 34, 56))),
    ("aten::conv2d fp32[2,3,16,16] fp32[8,3,3,3] - =[2,2] =[1,1] =[1,1] =1", torch.nn.functional.conv2d, ((2, 3, 16, 16), (8, 3, 3, 3)), {"stride": 2, "padding": 1}),
    ("aten::conv1d fp32[2,3,16] fp32[8,3,3] - =[1] =[0] =[1] =1", torch.nn.functional.conv1d, ((2, 3, 16), (8, 3, 3))),
]  # fmt: skip


@pytest.mark.parametrize("case", AGREE, ids=[case[0] for case in AGREE])
def test_torch_counts_the_same(work_of: Callable[[str], OpWork | None], case: tuple[Any, ...]) -> None:
    text, operation, sizes, *options = case
    assert work_of(text).flops == counted(operation, *sizes, **(options[0] if options else {}))


def test_dense_attention_is_the_same() -> None:
    flops = flop_counter.sdpa_flop_count((2, 4, 16, 8), (2, 4, 16, 8), (2, 4, 16, 8))
    assert flops == 4 * 2 * 4 * 8 * 16 * 16


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
