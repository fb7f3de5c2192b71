"""The slope test: decode kernels whose time grows with the KV cache give away their bandwidth without sizes.

t = a + b·sum(Lk) over decode steps; with the KV bytes of one token of one layer, bytes / b is the rate at which
the kernel reads the cache. A kernel that streams weights instead does not move with sum(Lk).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.models import ModelConfig
from tracekit.models.counts import kv_elements_per_token
from tracekit.tables import Phase, QualityNote
from tracekit.tables.text import matches

Floats = npt.NDArray[np.float64]

MIN_STEPS = 5
# Key tokens must vary by this share of their mean, or any line fits.
MIN_SPREAD = 0.05
PROPORTIONAL = 0.9


@dataclass(frozen=True, slots=True)
class Slope:
    """A line through the time of one kernel name over decode steps.

    Attributes:
        name: Kernel name.
        steps: Steps in the fit.
        intercept_ns: Time at no key tokens [ns].
        ns_per_token: Added time a key token and step [ns].
        r_squared: Share of the variance that the line explains, 0 to 1.
        bytes_per_s: Implied rate of reading the cache; None without a model, or where the time does not grow.
    """

    name: str
    steps: int
    intercept_ns: float
    ns_per_token: float
    r_squared: float
    bytes_per_s: float | None

    @property
    def proportional(self) -> bool:
        """Whether the time grows in proportion to key tokens: R^2 above 0.9 and a rising line."""
        return self.r_squared > PROPORTIONAL and self.ns_per_token > 0


def fit_line(x: Floats, y: Floats) -> tuple[float, float, float] | None:
    """Least squares: intercept, slope and R^2; None where x or y does not vary."""
    dx, dy = x - x.mean(), y - y.mean()
    varied = float(dx @ dx)
    total = float(dy @ dy)
    if varied == 0 or total == 0:
        return None
    slope = float(dx @ dy) / varied
    return float(y.mean() - slope * x.mean()), slope, slope * float(dx @ dy) / total


def slope_test(
    kernels: pd.DataFrame, steps: pd.DataFrame, config: ModelConfig | None = None, kv_item: float = 2.0
) -> list[Slope]:
    """Fit the time of each kernel name against the key tokens of decode steps.

    Args:
        kernels: Kernels with `name`, `dur_ns` and `step_id`.
        steps: STEPS with `phase` and `sum_k`.
        config: The model, for the KV bytes of a token.
        kv_item: Bytes of one cached element.

    Returns:
        One fit a kernel name that ran in enough decode steps of varying length, the longest-running first.
    """
    decode = steps[(steps["phase"].astype(object) == str(Phase.DECODE)) & steps["sum_k"].notna()]
    keys = decode.set_index("step_id")["sum_k"].astype("float64")
    if len(keys) < MIN_STEPS or float(np.ptp(keys)) < MIN_SPREAD * float(keys.mean()):
        return []
    inside = kernels[kernels["step_id"].isin(keys.index)]
    times = inside.groupby(["name", "step_id"], observed=True)["dur_ns"].sum().astype("float64").reset_index()
    order = times.groupby("name", observed=True)["dur_ns"].sum().sort_values(ascending=False).index
    by_name = dict(list(times.groupby("name", observed=True)))
    bytes_per_token = None if config is None else kv_elements_per_token(config) * kv_item
    fits = (_fit(str(name), by_name[name], keys, bytes_per_token) for name in order)
    return [fit for fit in fits if fit is not None]


def slope_notes(
    kernels: pd.DataFrame, steps: pd.DataFrame, config: ModelConfig | None = None, kv_item: float = 2.0
) -> list[QualityNote]:
    """What the slope test says of the attention kernel that holds most of the decode steps' time, where it is proportional."""
    attention = matches(kernels["family"], "^attn")
    fit = next(iter(slope_test(kernels[attention], steps, config, kv_item)), None)
    if fit is None or not fit.proportional:
        return []
    rate = "" if fit.bytes_per_s is None else f", so it reads the cache at {fit.bytes_per_s / 1e9:.4g} GB/s"
    text = (
        f"attention ({fit.name[:60]}) takes {fit.ns_per_token:.3g} ns more for each key token "
        f"over {fit.steps} decode steps (R² {fit.r_squared:.3f}){rate}"
    )
    return [QualityNote("kv_slope", fit.steps, text)]


def _fit(name: str, times: pd.DataFrame, keys: pd.Series, bytes_per_token: float | None) -> Slope | None:
    if len(times) < MIN_STEPS:
        return None
    x = np.asarray(keys.reindex(times["step_id"]), dtype=np.float64)
    line = fit_line(x, np.asarray(times["dur_ns"], dtype=np.float64))
    if line is None:
        return None
    intercept, slope, r_squared = line
    rate = None if bytes_per_token is None or slope <= 0 else bytes_per_token / slope * 1e9
    return Slope(name, len(times), intercept, slope, r_squared, rate)
