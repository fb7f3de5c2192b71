"""Collectives: bytes by what a rank holds; bandwidths as nccl-tests define them.

Source: nccl-tests, doc/PERFORMANCE.md. S is the size of the whole message: n x the sent count for all-gather,
n x the received count for reduce-scatter.
"""

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor


def bus_factor(operation: str, ranks: int) -> float | None:
    """Bus bandwidth over algorithm bandwidth (S/t): compare with one direction's link bandwidth.

    2(n - 1)/n for all-reduce; (n - 1)/n for reduce-scatter, all-gather and all-to-all; 1 for broadcast and reduce.
    None for other operations, and for fewer than one rank.
    """
    if ranks < 1:
        return None
    share = (ranks - 1) / ranks
    words = {
        "all_reduce": 2 * share,
        "reduce_scatter": share,
        "all_gather": share,
        "all_to_all": share,
        "broadcast": 1.0,
        "reduce": 1.0,
    }
    return words.get(operation)


def reduction_flops(elements: float, ranks: int) -> float:
    """Additions that a rank does in a reduction of S elements: S(n - 1)/n."""
    return elements * (ranks - 1) / ranks if ranks else 0.0


def exchanged(
    sent: Tensor | None, received: float, *, flops: float | None, bus: float | None = None
) -> OpWork | None:
    """What a rank sends is read and what it receives is written, once each; forwarding rounds come on top."""
    if sent is None:
        return None
    return OpWork(flops, float(sent.bytes + received), sent.dtype, "vector", bus_bytes=bus)


def bus_bytes(operation: str, ranks: int, message: float) -> float | None:
    """Bytes on a rank's link: the bus factor times the whole message S [byte]; None for unknown operations."""
    factor = bus_factor(operation, ranks)
    return None if factor is None else factor * message


# Position of the message where it is the same before and after.
_ALL_REDUCE = {
    "vllm::all_reduce": 0,
    "sglang::inplace_all_reduce": 0,
    "sglang::outplace_all_reduce": 0,
    "_C_custom_ar::all_reduce": 1,
    "sgl_kernel::all_reduce": 1,
    "symm_mem::multimem_all_reduce_": 0,
    "symm_mem::one_shot_all_reduce": 0,
    "symm_mem::two_shot_all_reduce_": 0,
    "_c10d_functional::all_reduce": 0,
    "_c10d_functional::all_reduce_": 0,
    "aiter::all_reduce_": 0,
}


@model(*_ALL_REDUCE, kind=OpKind.COLLECTIVE)
def all_reduce(call: OpCall) -> OpWork | None:
    """`vllm::all_reduce(x)`: Q = 2·numel·b; the additions S(n - 1)/n need the number of ranks, which is not recorded."""
    x = call.tensor(_ALL_REDUCE[call.name])
    return None if x is None else exchanged(x, x.numel * x.item, flops=None)


def gathered(x: Tensor | None, ranks: int | None) -> OpWork | None:
    """All-gather of x over n ranks: S = n·x, (n - 1)·x on the link."""
    if x is None or ranks is None or ranks < 1:
        return None
    message = float(ranks * x.bytes)
    return exchanged(x, message, flops=0.0, bus=bus_bytes("all_gather", ranks, message))


def scattered(x: Tensor | None, ranks: int | None) -> OpWork | None:
    """Reduce-scatter of x over n ranks: S = x, x(n - 1)/n on the link and as many elements added."""
    if x is None or ranks is None or ranks < 1:
        return None
    bus = bus_bytes("reduce_scatter", ranks, x.bytes)
    return exchanged(x, x.bytes / ranks, flops=reduction_flops(x.numel, ranks), bus=bus)


@model("vllm::all_gather", kind=OpKind.COLLECTIVE)
def all_gather(call: OpCall) -> OpWork | None:
    """`vllm::all_gather(x, dim, n, group)`: x read, n·x written; F = 0."""
    return gathered(call.tensor(0), call.integer(2))


@model("_c10d_functional::all_gather_into_tensor", kind=OpKind.COLLECTIVE)
def all_gather_into(call: OpCall) -> OpWork | None:
    """`_c10d_functional::all_gather_into_tensor(x, n, group)`: x read, n·x written; F = 0."""
    return gathered(call.tensor(0), call.integer(1))


@model("vllm::reduce_scatter", kind=OpKind.COLLECTIVE)
def reduce_scatter(call: OpCall) -> OpWork | None:
    """`vllm::reduce_scatter(x, dim, n, group)`: x read, x/n written; F = numel(x)·(n - 1)/n."""
    return scattered(call.tensor(0), call.integer(2))


@model("_c10d_functional::reduce_scatter_tensor", kind=OpKind.COLLECTIVE)
def reduce_scatter_tensor(call: OpCall) -> OpWork | None:
    """`_c10d_functional::reduce_scatter_tensor(x, "sum", n, group)`: x read, x/n written; F = numel(x)·(n - 1)/n."""
    return scattered(call.tensor(0), call.integer(2))


@model("c10d::_allgather_base_", kind=OpKind.COLLECTIVE)
def allgather_base(call: OpCall) -> OpWork | None:
    """`c10d::_allgather_base_(out, in, group, ...)`: in read, out written; F = 0; the link carries out - in."""
    out, x = call.tensor(0), call.tensor(1)
    if out is None or x is None:
        return None
    return exchanged(x, out.bytes, flops=0.0, bus=float(max(0, out.bytes - x.bytes)))


@model("c10d::_reduce_scatter_base_", kind=OpKind.COLLECTIVE)
def reduce_scatter_base(call: OpCall) -> OpWork | None:
    """`c10d::_reduce_scatter_base_(out, in, group, ...)`: in read, out written; F = in - out, as S(n - 1)/n with n = in/out."""
    out, x = call.tensor(0), call.tensor(1)
    if out is None or x is None:
        return None
    bus = float(max(0, x.bytes - out.bytes))
    return exchanged(x, out.bytes, flops=float(max(0, x.numel - out.numel)), bus=bus)


def _listed(call: OpCall, position: int) -> float | None:
    """Bytes of a tensor or of a tensor list at a position; None where neither was recorded."""
    tensor = call.tensor(position)
    if tensor is not None:
        return float(tensor.bytes)
    shapes = call.shapes(position)
    if not shapes or call.list_type is None:
        return None
    return float(sum(Tensor(shape, call.list_type).bytes for shape in shapes))


@model("c10d::allreduce_", "c10d::allreduce_coalesced_", kind=OpKind.COLLECTIVE)
def c10d_all_reduce(call: OpCall) -> OpWork | None:
    """`c10d::allreduce_(tensors, group, ...)`: as all_reduce over a list, whose element type is `OpCall.list_type`."""
    size = _listed(call, 0)
    return None if size is None else OpWork(None, 2.0 * size, call.list_type, "vector")


@model(
    "c10d::allgather_",
    "c10d::allgather_into_tensor_coalesced_",
    "c10d::reduce_scatter_",
    "c10d::reduce_scatter_tensor_coalesced_",
    "c10d::alltoall_",
    "c10d::alltoall_base_",
    kind=OpKind.COLLECTIVE,
)
def c10d_exchange(call: OpCall) -> OpWork | None:
    """`c10d::alltoall_base_(outputs, inputs, group, ...)`: inputs read, outputs written; additions, if any, are not counted."""
    outputs, inputs = _listed(call, 0), _listed(call, 1)
    if outputs is None or inputs is None:
        return None
    return OpWork(None, outputs + inputs, call.list_type, "vector")
