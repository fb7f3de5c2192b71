"""Work: FLOPs and minimum DRAM bytes of each kernel, each with its source.

One file an op family; importing the package loads them all, so a new op model is one new file here.
"""

import importlib
import pkgutil

from tracekit.work.attribute import model_work
from tracekit.work.registered import OpKind, OpWork, find, model
from tracekit.work.signature import OpCall, Tensor, parse_call

__all__ = ["OpCall", "OpKind", "OpWork", "Tensor", "find", "model", "model_work", "parse_call"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
