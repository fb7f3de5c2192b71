"""Grouped products of experts: every row meets the matrix of its expert; weights of the experts expected to be touched.

Which rows are whose is device data. Argument orders are those of the public registrations of PyTorch 2.13, vLLM 0.32,
SGLang 0.5.23 and AITER.
"""

import math

from tracekit.work.dtypes import FLOATS
from tracekit.work.moe import experts_touched, is_expected
from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

_MATRIX, _EXPERTS = 2, 3
# Bits of a stored weight, padding and all.
_MIN_BITS, _MAX_BITS = 3.5, 16.5


def touched_share(experts: int, rows: float, per_token: int = 1) -> float:
    """Share of the experts that routed rows are expected to touch: 1 - (1 - k/E)^(R/k) under uniform routing."""
    return experts_touched(experts, per_token, rows / max(1, per_token)) / max(1, experts)


def _routed(flops: float, traffic: float, dtype: str, weights: float, share: float, tokens: float) -> OpWork:
    """The work of a product whose weights are a share of all experts'."""
    expected = float(weights) if is_expected(share, tokens) else 0.0
    return OpWork(flops, float(traffic), dtype, dtype, weight_bytes=float(weights), expected_bytes=expected)


@model("aten::_grouped_mm", "aten::_scaled_grouped_mm", "aten::_scaled_grouped_mm_v2", kind=OpKind.MOE)
def grouped_mm(call: OpCall) -> OpWork | None:
    """`aten::_grouped_mm(x[M, K], w[G, K, N], offsets)`: F = 2MNK; the weights of the groups that M rows touch.

    With x[G, M, K] and w[G, K, N] it is a batch; with two matrices the result is [G, M, N] and the contracted
    dimension is split over the groups, so F is 2MNK as well.
    """
    x, w = call.tensor(0), call.tensor(1)
    if x is None or w is None or not x.shape or not w.shape:
        return None
    offsets = next(
        (tensor for tensor in call.tensors()[2:] if len(tensor.shape) == 1 and tensor.dtype == "int32"), None
    )
    sizes = _grouped_sizes(x.shape, w.shape, 0 if offsets is None else offsets.numel)
    if sizes is None:
        return None
    flops, out, read = sizes
    item = max(2, x.item)
    x_scales, w_scales = (_scales(call, at) for at in (2, 3))
    weights = (w.bytes + w_scales) * read
    traffic = x.bytes + x_scales + weights + out * item
    return _routed(flops, traffic, x.dtype, weights, read, x.rows)


def _scales(call: OpCall, at: int) -> int:
    """Bytes of the scales of `aten::_scaled_grouped_mm`; 0 for the other forms."""
    scale = call.tensor(at) if call.name == "aten::_scaled_grouped_mm" else None
    return 0 if scale is None else scale.bytes


def _grouped_sizes(x: tuple[int, ...], w: tuple[int, ...], groups: int) -> tuple[float, int, float] | None:
    """FLOPs, elements of the result, and the share of w that is read."""
    match len(x), len(w):
        case 2, 3 if x[1] == w[1]:
            return 2.0 * x[0] * w[1] * w[2], x[0] * w[2], touched_share(w[0], x[0])
        case 3, 3 if x[0] == w[0] and x[2] == w[1]:
            return 2.0 * math.prod(x) * w[2], x[0] * x[1] * w[2], 1.0
        case 2, 2 if x[1] == w[0]:
            return 2.0 * x[0] * x[1] * w[1], groups * x[0] * w[1], 1.0
        case 3, 2 if x[2] == w[0]:
            return 2.0 * x[1] * x[2] * w[1], x[1] * w[1], 1.0
    return None


# Where the result [R, N], the rows [R, K], the weights [E, N, K] and the scales of both stand; and values a stored
# element of the rows holds.
_SCALED = {
    "_C::cutlass_moe_mm": (0, 1, 2, 3, 4, 1),
    "_C::cutlass_blockwise_scaled_grouped_mm": (0, 1, 2, 3, 4, 1),
    "_C::cutlass_w4a8_moe_mm": (0, 1, 2, 3, 4, 1),
    "_C::cutlass_mxfp8_grouped_mm": (4, 0, 1, 2, 3, 1),
    "_C::cutlass_fp4_group_mm": (0, 1, 2, 3, 4, 2),
    "_C::cutlass_mxfp4_group_mm": (0, 1, 2, 3, 4, 2),
    "sgl_kernel::fp8_blockwise_scaled_grouped_mm": (0, 6, 7, 8, 9, 1),
    "sgl_kernel::es_fp8_blockwise_scaled_grouped_mm": (0, 1, 2, 3, 4, 1),
    "sgl_kernel::cutlass_w4a8_moe_mm": (0, 1, 2, 3, 4, 1),
    "sgl_kernel::cutlass_fp4_group_mm": (0, 1, 2, 3, 4, 2),
}


@model(*_SCALED, kind=OpKind.MOE)
def scaled_grouped_mm(call: OpCall) -> OpWork | None:
    """`_C::cutlass_moe_mm(out[R, N], a[R, K], b[E, K, N], a_scales, b_scales, ...)`: F = 2RNK at the peak of a's type.

    The weights may lie in either order or be packed; they are taken where they hold 3.5 to 16.5 bits each.
    """
    out, a, b, a_scales, b_scales, values = (
        *(call.tensor(at) for at in _SCALED[call.name][:5]),
        _SCALED[call.name][5],
    )
    if out is None or a is None or b is None or (len(out.shape), len(a.shape), len(b.shape)) != (2, 2, 3):
        return None
    inner = a.shape[1] * values
    if a.rows != out.rows or not _fits(b, out.shape[1], inner):
        return None
    share = touched_share(b.shape[0], a.rows)
    weights = share * (b.bytes + (0 if b_scales is None else b_scales.bytes))
    flops = 2.0 * out.numel * inner
    traffic = a.bytes + (0 if a_scales is None else a_scales.bytes) + weights + out.bytes
    dtype = "fp4" if values != 1 else a.dtype
    return _routed(flops, traffic, dtype, weights, share, a.rows)


def _fits(packed: Tensor, out: int, inner: int) -> bool:
    """Whether a tensor [E, ...] holds an [out, inner] matrix an expert, a few bits a weight."""
    count = packed.shape[0] * out * inner
    return bool(count) and _MIN_BITS <= 8 * packed.bytes / count <= _MAX_BITS


@model("_moe_C::moe_wna16_gemm", kind=OpKind.MOE)
def moe_wna16_gemm(call: OpCall) -> OpWork | None:
    """`_moe_C::moe_wna16_gemm(x[M, K], out[T, k, N], packed[E, N, …], scales[E, N, K/g], zeros, ...)`: F = 2·T·k·N·K at x's peak."""
    x, out, packed, scales = (call.tensor(index) for index in range(4))
    if x is None or out is None or packed is None or len(out.shape) != _EXPERTS or len(x.shape) != _MATRIX:
        return None
    if len(packed.shape) != _EXPERTS or not _fits(packed, out.shape[2], x.shape[1]):
        return None
    extras = [tensor for tensor in (scales, call.tensor(4)) if tensor is not None]
    return _widened(x, out.rows, out.shape[1], out.shape[2], [packed, *extras])


@model("_moe_C::moe_wna16_marlin_gemm", "sgl_kernel::moe_wna16_marlin_gemm", kind=OpKind.MOE)
def moe_wna16_marlin_gemm(call: OpCall) -> OpWork | None:
    """`_moe_C::moe_wna16_marlin_gemm(x[T or T·k, K], out, packed[E, K/16, …], ..., scales[E, K/g, N], ..., topk_weights[T, k], ...)`: F = 2·T·k·N·K.

    Argument order differs by release, so the tensors are told by type: the packed weights are the first of three
    sizes and integers, their scales the first of three sizes and floats, the routing the last float matrix.
    """
    x, rest = call.tensor(0), call.tensors()[1:]
    three = [tensor for tensor in rest if len(tensor.shape) == _EXPERTS]
    packed = next((tensor for tensor in three if tensor.dtype not in FLOATS), None)
    scales = next((tensor for tensor in three if tensor.dtype in FLOATS), None)
    routing = [tensor for tensor in rest if tensor.dtype == "fp32" and len(tensor.shape) == _MATRIX]
    if x is None or packed is None or scales is None or not routing or len(x.shape) != _MATRIX:
        return None
    rows, chosen = routing[-1].numel, routing[-1].shape[1]
    if x.rows not in {rows, routing[-1].shape[0]} or not _fits(packed, scales.shape[2], x.shape[1]):
        return None
    zeros = [tensor for tensor in three if tensor.dtype not in FLOATS and tensor is not packed]
    return _widened(x, rows, chosen, scales.shape[2], [packed, scales, *zeros])


def _widened(x: Tensor, rows: int, chosen: int, out: int, stored: list[Tensor]) -> OpWork:
    """Products of rows with packed experts, whose weights are widened before they are multiplied."""
    share = touched_share(stored[0].shape[0], rows, chosen)
    weights = share * sum(tensor.bytes for tensor in stored)
    traffic = x.bytes + rows * out * x.item + weights
    return _routed(2.0 * rows * out * x.shape[1], traffic, x.dtype, weights, share, rows / max(1, chosen))


@model("aiter::ck_moe_stage1*", "aiter::ck_moe_stage2*", "aiter::moe_cktile2stages_gemm*", kind=OpKind.MOE)
def aiter_stage(call: OpCall) -> OpWork | None:
    """`aiter::ck_moe_stage1(x[T, H], w1[E, 2I, …], w2, …, out[T, k, I], k, ...)`: F = 2·T·k·H·2I; stage 2 takes [T, k, I] to [T, H]."""
    x, out, chosen = call.tensor(0), call.tensor(6), call.integer(7)
    first = "stage1" in call.name
    w = call.tensor(1 if first else 2)
    if x is None or out is None or w is None or not chosen or chosen < 0 or len(w.shape) != _EXPERTS:
        return None
    if not x.shape or not out.shape:
        return None
    tokens = x.shape[0]
    width, inner = (w.shape[1], x.shape[-1]) if first else (out.shape[-1], x.shape[-1])
    if not _fits(w, width, inner):
        return None
    share = touched_share(w.shape[0], tokens * chosen, chosen)
    weights = share * w.bytes
    dtype = w.dtype if w.dtype in {x.dtype, "fp8", "fp4"} else x.dtype
    flops = 2.0 * tokens * chosen * width * inner
    return _routed(flops, x.bytes + weights + out.bytes, dtype, weights, share, tokens)
