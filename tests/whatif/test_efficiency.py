"""How a capture's times are carried over to another step, with numbers worked out beside."""

import pandas as pd
import pytest

from tracekit.models import ModelConfig
from tracekit.tables.ceilings import Ceilings, Roof
from tracekit.whatif.answer import Seen, Target, answer, point
from tracekit.whatif.efficiency import LEAST_EFFICIENCY, Group, Observed, expected_by_group, observe
from tracekit.whatif.scenario import Scenario

MODEL = ModelConfig("one layer", 1, 4096, 11008, 32, 32, 128, 32000)
# Products of one row reach half of the DRAM roof (1e12 FLOP/s are 1e12 byte/s of 16-bit weights), of 16 rows an
# eighth: 4e12 FLOP/s are 0.25e12 byte/s; of 4096 rows the peak.
THIN = {"bf16": {1: 1e12, 16: 4e12, 4096: 1e15}}
PLAIN = Ceilings("test", {"bf16": Roof(measured=1e15), "vector": Roof(measured=5e13)}, Roof(measured=2e12))
CURVED = Ceilings("test", PLAIN.peaks, PLAIN.dram, thin=THIN)


def products(before: Scenario, after: Scenario, ceilings: Ceilings, seconds: float) -> float:
    target = Target(ceilings)
    observed = Observed({"products": Group(seconds, 0.0)}, 0.0, 0.0, 0.0, 0.0, seconds)
    found = expected_by_group(point(before, target), point(after, target), observed)
    return dict(found)["products"]


def decode(batch: int) -> Scenario:
    return Scenario(MODEL, batch=batch)


def floor(batch: int, ceilings: Ceilings = PLAIN) -> float:
    return point(decode(batch), Target(ceilings)).floor_s("products")


def test_without_thin_products_times_follow_the_floors() -> None:
    start = 2 * floor(1)
    assert products(decode(1), decode(16), PLAIN, start) == pytest.approx(start * floor(16) / floor(1))


def test_products_of_more_rows_follow_the_course_of_the_thin_ones() -> None:
    start = 2 * floor(1)
    # From half of the roof to an eighth: four times as long against the floor.
    assert products(decode(1), decode(16), CURVED, start) == pytest.approx(4 * start * floor(16) / floor(1))
    # Four rows lie halfway on the logarithm: a quarter of the roof.
    assert products(decode(1), decode(4), CURVED, start) == pytest.approx(2 * start * floor(4) / floor(1))


def test_from_the_ridge_on_the_share_of_the_roof_stays() -> None:
    # The ridge of 16-bit weights is at 1e15 / 2e12 x 2 / 2 = 500 rows.
    start = 2 * floor(500)
    assert products(decode(500), decode(4000), CURVED, start) == pytest.approx(
        start * floor(4000) / floor(500)
    )


def test_what_the_roofs_cannot_explain_does_not_grow() -> None:
    # Ten times the floor: what lies beyond floor / 0.3 keeps its time, whatever is asked.
    start = 10 * floor(64)
    near = floor(64) / LEAST_EFFICIENCY
    found = products(decode(64), decode(4096), PLAIN, start)
    assert found == pytest.approx(near * floor(4096) / floor(64) + start - near)


def test_a_disturbed_step_does_not_move_what_was_seen() -> None:
    times = [100, 110, 90, 5000]
    kernels = pd.DataFrame(
        {
            "step_id": range(4),
            "family": "gemm",
            "bottleneck": "dram",
            "dur_ns": [1000 * time for time in times],
            "from_graph": [True, True, True, False],
        }
    )
    steps = pd.DataFrame({"step_id": range(4), "dur_ns": [2000 * time for time in times]})
    gaps = pd.DataFrame({"step_id": [0, 3], "cause": ["host", "host"], "dur_ns": [1000, 10**9]})
    found = observe(kernels, steps, gaps)
    assert found.groups["products"].time_s == pytest.approx(105e-6)
    assert found.wall_s == pytest.approx(210e-6)
    assert found.replayed == 0.75
    # Half of the steps wait not at all.
    assert found.host_s == pytest.approx(0.5e-6)


@pytest.mark.parametrize(("rows", "counted"), [(1, 1), (64, 64), (4000, 500)])
def test_rows_count_up_to_the_ridge(rows: int, counted: int) -> None:
    assert point(decode(rows), Target(PLAIN)).thin_rows() == pytest.approx(counted)


def test_the_interval_widens_with_the_rows_of_thin_products() -> None:
    start = Seen(
        decode(1),
        Target(CURVED),
        Observed({"products": Group(2 * floor(1), 0.0)}, 0, 0, 0, 0, 2 * floor(1)),
        "seen",
    )

    def width(batch: int) -> float:
        found = answer(decode(batch), Target(CURVED), start)
        return found.expected_high_s / found.expected_s - 1

    assert 0.05 <= width(1) < width(2) < width(8)
