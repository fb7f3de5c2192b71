"""MFU and MBU where little is known."""

import pandas as pd
import pytest

from tracekit.roofline import mfu
from tracekit.tables.ceilings import Ceilings, Roof


def test_without_a_peak_that_applies_mfu_is_unknown_and_not_zero() -> None:
    kernels = pd.DataFrame({"flops": [0.0, 1e9], "peak": pd.Categorical([None, "bf16"]), "dur_ns": [5, 5]})
    assert mfu(kernels, 10.0, Ceilings()) is None
    assert mfu(kernels, 1e6, Ceilings(peaks={"bf16": Roof(spec=1e12)})) == pytest.approx(1.0)
