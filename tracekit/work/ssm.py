"""State-space scans and linear attention: about 9 operations a state and token in a scan, 6 in one decode step.

Source: the operation count of Mamba-1's selective scan (Gu and Dao 2023, appendix), discretise, update, project.
Engine ops that hide the size of their state give the bytes of what they were given alone: a lower bound without
operations.
"""

import math

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall

SCAN = 9.0
STEP = 6.0


@model("_C::selective_scan_fwd", "selective_scan::*", kind=OpKind.SSM)
def selective_scan(call: OpCall) -> OpWork | None:
    """`_C::selective_scan_fwd(u[B, D, L], delta, A[D, N], B, C, D, z, ...)`: F = 9·B·D·L·N; u, delta, B, C read, a result written."""
    u, delta, a = call.tensor(0), call.tensor(1), call.tensor(2)
    if u is None or delta is None or a is None or len(a.shape) != 2:  # noqa: PLR2004 - [D, N]
        return None
    others = sum(tensor.bytes for tensor in (call.tensor(3), call.tensor(4)) if tensor is not None)
    traffic = u.bytes + delta.bytes + a.bytes + others + u.numel * u.item
    return OpWork(SCAN * u.numel * a.shape[1], float(traffic), u.dtype, "vector", weight_bytes=float(a.bytes))


@model("vllm::selective_state_update", "mamba_ssm::selective_state_update", kind=OpKind.SSM)
def state_update(call: OpCall) -> OpWork | None:
    """`vllm::selective_state_update(state[B, D, N], x[B, D], ...)`: F = 6·B·D·N; the state read and written dominates."""
    state, x = call.tensor(0), call.tensor(1)
    if state is None or x is None or not x.shape:
        return None
    batch = min(state.shape[0], x.shape[0]) if state.shape else 0
    states = batch * math.prod(state.shape[1:])
    traffic = 2 * states * state.item + 2 * x.bytes
    return OpWork(STEP * states, float(traffic), x.dtype, "vector")


@model("sgl_kernel::lightning_attention_decode", kind=OpKind.SSM)
def lightning_decode(call: OpCall) -> OpWork | None:
    """`sgl_kernel::lightning_attention_decode(q[B, h, 1, d], k, v[B, h, 1, dv], past[B, h, d, dv], slope, out, new)`: F = 5·B·h·d·dv.

    Decay and add an outer product (3 a state), meet the query (2); the state is read and a new one written.
    """
    past, new = call.tensor(3), call.tensor(6)
    if past is None or new is None or past.shape != new.shape:
        return None
    traffic = sum(tensor.bytes for tensor in call.tensors())
    return OpWork(5.0 * past.numel, float(traffic), past.dtype, "vector")


@model(
    "vllm::gdn_attention_core",
    "vllm::qwen_gdn_attention_core",
    "vllm::qwen_gdn_attention_core_fused_norm_packed",
    "vllm::cpu_gdn_attention_core",
    "vllm::gdn_attention_core_xpu",
    "vllm::bailing_v3_kda_attention",
    "vllm::kda_attention",
    kind=OpKind.SSM,
)
def gated_delta(call: OpCall) -> OpWork | None:
    """`vllm::gdn_attention_core(qkv[T, 2·hk·dk + hv·dv], b[T, hv], a[T, hv], out[T, hv, dv], layer)`: each once, no operations.

    The state [hv, dk, dv] of each request is neither counted nor recorded, so the bytes are a lower bound, and in
    decode a low one.
    """
    return _given(call)


def _given(call: OpCall) -> OpWork | None:
    """The bytes of a call's tensors, as a lower bound."""
    tensors = call.tensors()
    if not tensors:
        return None
    return OpWork(None, float(sum(tensor.bytes for tensor in tensors)), tensors[0].dtype, "vector")


@model("vllm::mamba_mixer2", kind=OpKind.SSM)
def mamba_mixer2(call: OpCall) -> OpWork | None:
    """`vllm::mamba_mixer2(projected[T, 2·D + 2·G·N + h], out[T, D], layer)`: each once, no operations, a lower bound.

    Older releases passed hidden states and held the projections as well: [T, H] and [T, H], of which nothing
    is known of the scan.
    """
    projected, out = call.tensor(0), call.tensor(1)
    if projected is None or out is None or not projected.shape or not out.shape:
        return None
    return _given(call) if projected.shape[-1] > 2 * out.shape[-1] else None


@model(
    "vllm::mamba_mixer",
    "vllm::linear_attention",
    "vllm::short_conv",
    "vllm::gdn_attention",
    "vllm::olmo_hybrid_gdn_full_forward",
    "sglang::nemotron_mamba2_with_output",
    kind=OpKind.SSM,
)
def whole_mixer(_call: OpCall) -> OpWork | None:
    """`vllm::mamba_mixer(hidden[T, H], out[T, H], layer)`: holds the projections too; of the scan nothing is recorded."""
    return None
