"""State-space scans: about 9 operations a state and token in a scan, 6 in one decode step.

Source: the operation count of Mamba-1's selective scan (Gu and Dao 2023, appendix), discretise, update, project.
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
