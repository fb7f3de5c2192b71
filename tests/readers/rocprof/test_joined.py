"""Counter collections of rocprofv3 joined to the kernels of a run without counters, whichever file they are in."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rocprofbuilder import RocprofBuilder

import tracekit
from tracekit.pipeline import Options

GEMM = "Cijk_Ailk_Bljk_BBS_BH_MT64x64x64"
EXTENTS = {"items": (512, 1, 1), "group": (256, 1, 1)}


def timing(folder: Path) -> str:
    trace = RocprofBuilder().range("decode", 0, 2_000, 50)
    for number in range(2):
        trace.call(0, 100 * number, 100 * number + 5, number + 1)
        trace.kernel(GEMM, 5_000 + 30_000 * number, 25_000 + 30_000 * number, number + 1, **EXTENTS)
    path = folder / "timing_results.json"
    path.write_bytes(trace.text())
    return str(path)


def measured() -> RocprofBuilder:
    trace = RocprofBuilder()
    for fetched in (100.0, 200.0):
        trace.count(GEMM, FETCH_SIZE=[fetched], WRITE_SIZE=[4.0], SQ_INSTS_VALU_MFMA_MOPS_BF16=[8.0])
    return trace


def as_json(folder: Path) -> str:
    path = folder / "counters_results.json"
    path.write_bytes(measured().text())
    return str(path)


def as_rocpd(folder: Path) -> str:
    return measured().write_rocpd(folder / "counters_results.db")


def as_csv(folder: Path) -> str:
    header = "Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Grid_Size,Kernel_Name,Workgroup_Size,Counter_Name,Counter_Value"
    rows = [
        f"{dispatch},Agent 4,1,500,512,{GEMM},256,{name},{value}"
        for dispatch, fetched in ((1, 100.0), (2, 200.0))
        for name, value in (
            ("FETCH_SIZE", fetched),
            ("WRITE_SIZE", 4.0),
            ("SQ_INSTS_VALU_MFMA_MOPS_BF16", 8.0),
        )
    ]
    path = folder / "counter_collection.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


@pytest.mark.parametrize("make", [as_json, as_rocpd, as_csv], ids=lambda make: make.__name__)
def test_measured_bytes_and_operations_stand_at_their_kernels(
    make: Callable[[Path], str], tmp_path: Path
) -> None:
    result = tracekit.analyze([timing(tmp_path)], Options(counters=(make(tmp_path),)))
    kernels = result.kernels
    # FETCH_SIZE and WRITE_SIZE count 1024 bytes each, a unit of matrix operations is 512.
    assert kernels["dram_bytes_hw"].tolist() == [104 * 1024, 204 * 1024]
    assert kernels["flops_hw"].tolist() == [8 * 512] * 2
    assert set(kernels["hw_status"].astype(object)) == {"measured"}
    (phase,) = result.summary["phases"]
    assert (phase["phase"], phase["dram_bytes_hw"]) == ("decode", 308 * 1024)
