"""Dense matrix products: F = 2MNK, a multiply-add counted as two; Q = every operand and the result once.

A bias or a scaling is part of the epilogue: it adds its bytes and no useful matrix operation, as in
`torch.utils.flop_counter` and in the MFU of PaLM (Chowdhery et al. 2022, appendix B).
"""

import math
from dataclasses import replace

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor


def matmul_flops(m: float, n: float, k: float) -> float:
    """2MNK for [M, K] x [K, N] [FLOP]."""
    return 2.0 * m * n * k


def product(
    a: Tensor, b: Tensor, out_numel: float, k: int, *, bias: Tensor | None = None, weight: bool = True
) -> OpWork:
    """The work of one product or a batch of them.

    Args:
        a: Left operand, activations where one side is a weight.
        b: Right operand.
        out_numel: Elements of the result.
        k: Length of the contracted dimension.
        bias: Tensor added to the result, at storage size.
        weight: Whether `b` is a model weight.
    """
    traffic = a.bytes + b.bytes + out_numel * a.item + (0 if bias is None else bias.bytes)
    weights = (b.bytes + (0 if bias is None else bias.bytes)) if weight else 0
    return OpWork(2.0 * out_numel * k, float(traffic), a.dtype, a.dtype, weight_bytes=float(weights))


def _plain(
    a: Tensor | None, b: Tensor | None, bias: Tensor | None = None, *, weight: bool = True
) -> OpWork | None:
    if a is None or b is None or len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:  # noqa: PLR2004 - matrices
        return None
    return product(a, b, a.shape[0] * b.shape[1], a.shape[1], bias=bias, weight=weight)


@model("aten::mm", kind=OpKind.GEMM)
def mm(call: OpCall) -> OpWork | None:
    """`aten::mm(a[M, K], b[K, N])`: F = 2MNK, Q = MK + KN + MN."""
    return _plain(call.tensor(0), call.tensor(1))


@model("aten::addmm", "aten::addmm_", "aten::_addmm_activation", kind=OpKind.GEMM)
def addmm(call: OpCall) -> OpWork | None:
    """`aten::addmm(bias, a[M, K], b[K, N], beta, alpha)`: F = 2MNK, Q = MK + KN + MN + bias; no bias where beta is 0."""
    bias = None if call.number(3) == 0 else call.tensor(0)
    return _plain(call.tensor(1), call.tensor(2), bias)


@model(
    "aten::linear",
    "aten::mkldnn_linear",
    "mkldnn::_linear_pointwise",
    "vllm::rocm_unquantized_gemm",
    "vllm::rocm_unquantized_gemm_impl",
    "vllm::unquantized_gemm",
    "vllm::cpu_unquantized_gemm",
    "sgl_kernel::weight_packed_linear",
    "_C::weight_packed_linear",
    kind=OpKind.GEMM,
)
def linear(call: OpCall) -> OpWork | None:
    """`aten::linear(x[..., K], w[N, K], bias[N])`: M = the product of x's leading sizes; F = 2MNK, Q = MK + NK + MN + N."""
    x, w = call.tensor(0), call.tensor(1)
    if x is None or w is None or len(w.shape) != 2 or not x.shape or x.shape[-1] != w.shape[1]:  # noqa: PLR2004 - a matrix
        return None
    return product(x, w, x.rows * w.shape[0], w.shape[1], bias=call.tensor(2))


@model(
    "aiter::gemm_a16w16", "aiter::gemm_a16w16_asm", "aiter::tuned_gemm", "aiter::hipb_mm", kind=OpKind.GEMM
)
def aiter_linear(call: OpCall) -> OpWork | None:
    """`aiter::gemm_a16w16(x[..., K], w[N, K], bias)`: as a linear layer."""
    return linear(call)


@model("mkl::_mkl_linear", kind=OpKind.GEMM)
def mkl_linear(call: OpCall) -> OpWork | None:
    """`mkl::_mkl_linear(x[..., K], packed, w[N, K], bias)`: as a linear layer; the packed copy stands for w."""
    x, w = call.tensor(0), call.tensor(2)
    if x is None or w is None or len(w.shape) != 2 or not x.shape or x.shape[-1] != w.shape[1]:  # noqa: PLR2004 - a matrix
        return None
    return product(x, w, x.rows * w.shape[0], w.shape[1], bias=call.tensor(3))


@model("_rocm_C::wvSplitK", "_rocm_C::LLMM1", kind=OpKind.GEMM)
def weight_first(call: OpCall) -> OpWork | None:
    """`_rocm_C::wvSplitK(w[N, K], x[M, K], ...)`: the weight comes first; F = 2MNK."""
    w, x = call.tensor(0), call.tensor(1)
    if x is None or w is None or len(w.shape) != 2 or x.shape[-1:] != w.shape[1:]:  # noqa: PLR2004 - a matrix
        return None
    return product(x, w, x.rows * w.shape[0], w.shape[1])


@model("_C::onednn_mm", kind=OpKind.GEMM)
def onednn_mm(call: OpCall) -> OpWork | None:
    """`_C::onednn_mm(out[M, N], a[M, K], bias, handler)`: the packed weight is [K, N] of a's type and behind the handler."""
    out, a = call.tensor(0), call.tensor(1)
    if out is None or a is None or not out.shape or not a.shape or out.rows != a.rows:
        return None
    return product(
        a, Tensor((a.shape[-1], out.shape[-1]), a.dtype), out.numel, a.shape[-1], bias=call.tensor(2)
    )


@model("trtllm::cublas_mm", "trtllm::dsv3_router_gemm_op", "trtllm::dsv3_fused_a_gemm_op", kind=OpKind.GEMM)
def cublas_mm(call: OpCall) -> OpWork | None:
    """`trtllm::cublas_mm(a[M, K], b[K, N], bias, out_dtype)`: as mm."""
    return _plain(call.tensor(0), call.tensor(1), call.tensor(2))


def _batched(a: Tensor | None, b: Tensor | None, bias: Tensor | None = None) -> OpWork | None:
    if a is None or b is None or len(a.shape) != 3 or len(b.shape) != 3:  # noqa: PLR2004 - batches of matrices
        return None
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        return None
    work = product(a, b, math.prod(a.shape[:2]) * b.shape[2], a.shape[2], bias=bias, weight=False)
    return replace(work, second_bytes=float(b.bytes))


@model("aten::bmm", kind=OpKind.GEMM)
def bmm(call: OpCall) -> OpWork | None:
    """`aten::bmm(a[G, M, K], b[G, K, N])`: F = 2GMNK, Q = G(MK + KN + MN); a batch of stride 0 is stored once."""
    return _batched(call.tensor(0), call.tensor(1))


@model("sgl_kernel::bmm_cpu", kind=OpKind.GEMM)
def bmm_out(call: OpCall) -> OpWork | None:
    """`sgl_kernel::bmm_cpu(out[G, M, N], a[G, M, K], b, ...)`: as bmm, the second matrix in either order, as it may be packed."""
    out, a, b = (call.tensor(index) for index in range(3))
    if out is None or a is None or b is None or {len(out.shape), len(a.shape), len(b.shape)} != {3}:
        return None
    if out.shape[:2] != a.shape[:2] or b.numel != out.shape[0] * out.shape[2] * a.shape[2]:
        return None
    return product(a, b, out.numel, a.shape[2], weight=False)


@model("aten::baddbmm", "aten::baddbmm_", kind=OpKind.GEMM)
def baddbmm(call: OpCall) -> OpWork | None:
    """`aten::baddbmm(self, a[G, M, K], b[G, K, N], beta, alpha)`: as bmm, and self where beta is not 0."""
    return _batched(call.tensor(1), call.tensor(2), None if call.number(3) == 0 else call.tensor(0))


@model("aten::mv", kind=OpKind.GEMM)
def mv(call: OpCall) -> OpWork | None:
    """`aten::mv(a[M, K], x[K])`: F = 2MK, Q = MK + K + M."""
    a, x = call.tensor(0), call.tensor(1)
    if a is None or x is None or len(a.shape) != 2 or a.shape[1:] != x.shape:  # noqa: PLR2004 - a matrix
        return None
    return product(x, a, a.shape[0], a.shape[1])


@model("aten::addmv", "aten::addmv_", kind=OpKind.GEMM)
def addmv(call: OpCall) -> OpWork | None:
    """`aten::addmv(self, a[M, K], x[K], beta, alpha)`: as mv, and self where beta is not 0."""
    a, x = call.tensor(1), call.tensor(2)
    if a is None or x is None or len(a.shape) != 2 or a.shape[1:] != x.shape:  # noqa: PLR2004 - a matrix
        return None
    return product(x, a, a.shape[0], a.shape[1], bias=None if call.number(3) == 0 else call.tensor(0))


@model("aten::dot", "aten::vdot", kind=OpKind.GEMM)
def dot(call: OpCall) -> OpWork | None:
    """`aten::dot(x[K], y[K])`: F = 2K on the vector units, Q = 2K + 1."""
    x, y = call.tensor(0), call.tensor(1)
    if x is None or y is None or x.shape != y.shape:
        return None
    return OpWork(2.0 * x.numel, float(x.bytes + y.bytes + x.item), x.dtype, "vector")


@model("aten::matmul", kind=OpKind.GEMM)
def matmul(call: OpCall) -> OpWork | None:
    """`aten::matmul(a[..., M, K], b[..., K, N])` with broadcast batches: F = 2MNK x batches; a vector counts as one row or column."""
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or not a.shape or not b.shape:
        return None
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    batches = broadcast(left[:-2], right[:-2])
    if left[-1] != right[-2] or batches is None:
        return None
    weight = len(right) == 2  # noqa: PLR2004 - a matrix shared by all rows is a layer's weight
    return product(a, b, math.prod(batches) * left[-2] * right[-1], left[-1], weight=weight)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The size that shapes broadcast to; None where they do not."""
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    out = []
    for sizes in zip(*padded, strict=True):
        wanted = {size for size in sizes if size != 1}
        if len(wanted) > 1:
            return None
        out.append(wanted.pop() if wanted else 1)
    return tuple(out)
