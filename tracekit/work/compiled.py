"""torch.compile in the trace of a CPU: the host's bookkeeping around a compiled call, and kernels without sizes."""

from tracekit.work.registered import NOTHING, OpKind, OpWork, model
from tracekit.work.signature import OpCall


@model(
    "TorchDynamo Cache Lookup",
    "Pregraph bytecode",
    "AOTDispatcher Runtime Wrapper*",
    "Torch-Compiled Region: *",
    "## Call CompiledFxGraph *",
    kind=OpKind.VIEW,
)
def bookkeeping(_call: OpCall) -> OpWork:
    """F = 0, Q = 0: guards, Python between graphs, and the call itself; the kernels inside have events of their own."""
    return NOTHING


@model("graph_*_cpp_fused*", "cpp_fused*", "graph_*_kernel", kind=OpKind.ELEMENTWISE)
def generated(_call: OpCall) -> None:
    """Unknown: a generated C++ kernel records no sizes. Without this row it would take the nothing of the call around it."""
