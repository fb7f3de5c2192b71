"""Convolutions: F = 2·N·Co·(C/g)·prod(kernel)·prod(out); Q = x + w + out once, never the im2col copy."""

import math

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

# Positions of stride, padding, dilation (1 where there is none), groups and the transposed flag.
_CONVOLUTIONS: dict[str, tuple[int, int, int | None, int | None, int | None]] = {
    "aten::convolution": (3, 4, 5, 8, 6),
    "aten::_convolution": (3, 4, 5, 8, 6),
    "aten::convolution_overrideable": (3, 4, 5, 8, 6),
    "aten::conv1d": (3, 4, 5, 6, None),
    "aten::conv2d": (3, 4, 5, 6, None),
    "aten::conv3d": (3, 4, 5, 6, None),
    "aten::cudnn_convolution": (3, 2, 4, 5, None),
    "aten::miopen_convolution": (4, 3, 5, 6, None),
    "aten::mkldnn_convolution": (4, 3, 5, 6, None),
    "aten::_conv_depthwise2d": (4, 5, 6, None, None),
    "aten::_slow_conv2d_forward": (4, 5, None, None, None),
    "aten::thnn_conv2d": (4, 5, None, None, None),
    "mkldnn::_convolution_pointwise": (4, 3, 5, 6, None),
}


def out_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Size of the result: floor((size + 2p - d(k - 1) - 1)/s) + 1, at least 0."""
    return max(0, (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1) if stride > 0 else 0


def convolution(
    x: Tensor, w: Tensor, out: tuple[int, ...], bias: Tensor | None, *, transposed: bool = False
) -> OpWork:
    """The work of one convolution.

    Args:
        x: Input [N, C, ...].
        w: Weight [Co, C/g, ...]; [C, Co/g, ...] where transposed.
        out: Spatial sizes of the result.
        bias: Bias [Co].
        transposed: Whether each input element meets the kernel, not each output element.
    """
    channels = w.shape[0]
    spatial = math.prod(x.shape[2:]) if transposed else math.prod(out)
    flops = 2.0 * x.shape[0] * w.numel * spatial
    traffic = (
        x.bytes
        + w.bytes
        + x.shape[0] * channels * math.prod(out) * x.item
        + (0 if bias is None else bias.bytes)
    )
    return OpWork(flops, float(traffic), x.dtype, x.dtype, weight_bytes=float(w.bytes))


@model(*_CONVOLUTIONS, kind=OpKind.CONV)
def conv(call: OpCall) -> OpWork | None:
    """`aten::convolution(x[N, C, ...], w[Co, C/g, ...], bias, stride, padding, dilation, ...)`: values come from Concrete Inputs.

    w.numel = Co·(C/g)·prod(kernel), so F = 2·N·w.numel·prod(out). Transposed: F = 2·N·w.numel·prod(in); its bytes
    are left unknown.
    """
    x, w = call.tensor(0), call.tensor(1)
    stride_at, padding_at, dilation_at, _groups, transposed_at = _CONVOLUTIONS[call.name]
    if x is None or w is None or len(x.shape) != len(w.shape) or len(x.shape) < 3:  # noqa: PLR2004 - N, C and one more
        return None
    if transposed_at is not None and call.flag(transposed_at):
        work = convolution(x, w, (), None, transposed=True)
        return OpWork(work.flops, None, work.dtype, work.peak)
    rank = len(x.shape) - 2
    values = [
        (1,) * rank if at is None else _spread(call.integers(at), rank)
        for at in (stride_at, padding_at, dilation_at)
    ]
    if None in values:
        return None
    stride, padding, dilation = (value or () for value in values)
    out = tuple(map(out_size, x.shape[2:], w.shape[2:], stride, padding, dilation))
    bias_at = {"aten::cudnn_convolution": None, "aten::_slow_conv2d_forward": 3, "aten::thnn_conv2d": 3}
    at = bias_at.get(call.name, 2)
    return convolution(x, w, out, None if at is None else call.tensor(at))


def _spread(values: tuple[int, ...] | None, rank: int) -> tuple[int, ...] | None:
    """One value for all spatial dimensions, or one each."""
    if values is None or len(values) not in {1, rank}:
        return None
    return values * rank if len(values) == 1 else values


@model(
    "_C::causal_conv1d_fwd",
    "sgl_kernel::causal_conv1d_fwd",
    "sglang::mamba_causal_conv1d_fwd",
    "causal_conv1d::*fwd*",
    kind=OpKind.CONV,
)
def causal_conv1d(call: OpCall) -> OpWork | None:
    """`_C::causal_conv1d_fwd(x, w[D, W], ...)`: a depthwise filter, F = 2·numel(x)·W on the vector units, x read and written."""
    return _depthwise(call.tensor(0), call.tensor(1), states=0)


@model(
    "_C::causal_conv1d_update",
    "sgl_kernel::causal_conv1d_update",
    "sglang::mamba_causal_conv1d_update",
    "causal_conv1d::*update*",
    kind=OpKind.CONV,
)
def causal_conv1d_update(call: OpCall) -> OpWork | None:
    """`_C::causal_conv1d_update(x[B, D], states[slots, D, W - 1], w[D, W], ...)`: as above; D(W - 1) states a sequence read and written."""
    x, states, w = (call.tensor(index) for index in range(3))
    if x is None or states is None or len(states.shape) != 3 or not x.shape:  # noqa: PLR2004 - as above
        return None
    return _depthwise(x, w, states=2 * x.shape[0] * states.shape[1] * states.shape[2] * states.item)


def _depthwise(x: Tensor | None, w: Tensor | None, *, states: int) -> OpWork | None:
    if x is None or w is None or len(w.shape) != 2:  # noqa: PLR2004 - [D, W]
        return None
    traffic = x.bytes + x.numel * x.item + w.bytes + states
    return OpWork(2.0 * x.numel * w.shape[1], float(traffic), x.dtype, "vector", weight_bytes=float(w.bytes))
