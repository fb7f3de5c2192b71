"""How wide the operands of a plain product are, as far as its kernel's name tells."""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.tables.text import valued, where

# Bytes of an element by the type of the math. Narrower types have scales, and results of another type.
_ITEMS = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "tf32": 4.0, "fp64": 8.0}
# Math of 32 bits may load operands of 16, as `ampere_fp16_sgemm_fp16_128x64_tn` does.
_NARROW = re.compile(r"f(?:loat|p)?16|half|[48]bit|int[48]|f(?:loat|p)?[48]", re.IGNORECASE)
_LONGEST_READ = 4096


def operand_items(kernels: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Bytes of one element of each kernel's operands and result [byte]; NaN where its name does not tell, or tells two types.

    Args:
        kernels: Kernels with `name` and, where known, `name_dtype`.
    """
    if "name_dtype" not in kernels:
        return np.full(len(kernels), np.nan)
    items = valued(kernels["name_dtype"], _ITEMS.get)
    narrow = where(kernels["name"], lambda name: _NARROW.search(name[:_LONGEST_READ]) is not None)
    return np.where((items > 2.0) & narrow, np.nan, items)  # noqa: PLR2004 - bytes of a 16-bit type
