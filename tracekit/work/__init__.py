"""Work: FLOPs and minimum DRAM bytes of each kernel, each with its source.

One file an op family; importing the package loads them all, so a new op model is one new file here.
"""

import importlib
import pkgutil

from tracekit.work.attribute import model_work
from tracekit.work.config import Stored, apply_config, matmul_flops, step_sizes
from tracekit.work.identify import Traits, identify, traits
from tracekit.work.registered import OpKind, OpWork, find, model
from tracekit.work.replay import GraphDonor, graph_donor, lend_to_replays
from tracekit.work.sequence import lend_from, lend_in_trace
from tracekit.work.signature import OpCall, Tensor, parse_call
from tracekit.work.slope import Slope, slope_test
from tracekit.work.stage import Worked, find_work

__all__ = [
    "GraphDonor",
    "OpCall",
    "OpKind",
    "OpWork",
    "Slope",
    "Stored",
    "Tensor",
    "Traits",
    "Worked",
    "apply_config",
    "find",
    "find_work",
    "graph_donor",
    "identify",
    "lend_from",
    "lend_in_trace",
    "lend_to_replays",
    "matmul_flops",
    "model",
    "model_work",
    "parse_call",
    "slope_test",
    "step_sizes",
    "traits",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
