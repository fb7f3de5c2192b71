"""What the counters of rocprofv3 say of a launch."""

import pytest
from rocprofbuilder import RocprofBuilder

from tracekit.counters import derive
from tracekit.readers import read_stream
from tracekit.readers.source import from_bytes


def quantities(**values: list[float]) -> dict[str, float]:
    trace = RocprofBuilder().count("gemm", **values)
    counters = read_stream(from_bytes("capture", trace.text()), lambda _name: False)[0].counters
    assert counters is not None
    return derive(counters).iloc[0].to_dict()


def test_memory_traffic_is_what_was_fetched_and_written() -> None:
    # 64 KiB fetched and 16 KiB written.
    assert quantities(FETCH_SIZE=[64.0], WRITE_SIZE=[16.0])["dram_bytes"] == 80 * 1024


@pytest.mark.parametrize("name", ["F64", "F32", "BF16", "F16", "F8"])
def test_matrix_operations_are_counted_in_units_of_512(name: str) -> None:
    # A product of 4096 x 4096 x 4096 has 2 * 4096^3 operations: 268,435,456 units.
    units = 2 * 4096**3 / 512
    assert units == 268_435_456
    assert quantities(**{f"SQ_INSTS_VALU_MFMA_MOPS_{name}": [units]})["tensor_flops"] == 2 * 4096**3
