"""torch.compile on a CPU: the call around a graph does nothing itself, and its kernels without sizes stay unknown."""

from pathlib import Path

import pandas as pd
from tracebuilder import TraceBuilder

import tracekit


def test_a_generated_kernel_does_not_take_the_nothing_of_the_call_around_it(tmp_path: Path) -> None:
    trace = TraceBuilder(devices=[])
    trace.op("TorchDynamo Cache Lookup", 0, 10)
    trace.op("Torch-Compiled Region: 0/1", 10, 100)
    trace.op("## Call CompiledFxGraph f ##", 15, 90)
    trace.op("graph_1_cpp_fused_add_mean_mul_pow_rsqrt_2", 20, 30)
    trace.op("aten::mm", 55, 40, dims=[[4, 8], [8, 16]], types=["float", "float"])
    trace.write(tmp_path / "t.json")
    kernels = tracekit.analyze([str(tmp_path / "t.json")]).kernels.set_index("name")
    assert kernels.loc["aten::mm", "flops"] == 2 * 4 * 8 * 16
    assert pd.isna(kernels.loc["graph_1_cpp_fused_add_mean_mul_pow_rsqrt_2", "flops"])
    for around in ("TorchDynamo Cache Lookup", "Torch-Compiled Region: 0/1", "## Call CompiledFxGraph f ##"):
        assert (kernels.loc[around, "flops"], kernels.loc[around, "dram_bytes"]) == (0, 0)
    assert kernels["family"].astype(str).to_dict() == {
        "TorchDynamo Cache Lookup": "view",
        "Torch-Compiled Region: 0/1": "view",
        "## Call CompiledFxGraph f ##": "view",
        "graph_1_cpp_fused_add_mean_mul_pow_rsqrt_2": "norm",
        "aten::mm": "gemm",
    }
