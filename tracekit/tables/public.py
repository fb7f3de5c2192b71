"""The public tables: kernels, steps, gaps, quality. Parquet and JSON use the same names."""

from tracekit.tables.schema import Column, Table
from tracekit.tables.words import Bottleneck, GapCause, HwStatus, Kind, Phase, WorkSource

KERNELS = Table(
    "kernels",
    (
        Column("kernel_id", "int64", "Row number, unique within a report, in order of start."),
        Column("rank", "int32", "Rank of the process in its job.", null=True),
        Column("device", "int32", "Index of the device.", null=True),
        Column("stream", "int64", "Stream; on a CPU-only trace the thread.", null=True),
        Column("kind", "string", "What the row is.", words=Kind),
        Column("name", "string", "Name, verbatim."),
        Column("family", "string", "Kernel family of the taxonomy; `other` where no rule matched."),
        Column("ts_ns", "int64", "Start.", "ns"),
        Column("dur_ns", "int64", "Duration; on a CPU-only trace the op's self time.", "ns", minimum=0),
        Column("correlation", "int64", "Correlation id of the launch.", null=True),
        Column("launch_ts_ns", "int64", "Start of the launch call on the host.", "ns", null=True),
        Column("from_graph", "bool", "Launched by a graph replay."),
        Column("op", "string", "Innermost framework op around the launch.", null=True),
        Column("grid", "string", "Grid, x,y,z.", null=True),
        Column("block", "string", "Block, x,y,z.", null=True),
        Column("step_id", "int64", "Step that launched it.", null=True),
        Column("phase", "string", "Phase of the step that launched it.", words=Phase),
        Column("phase_confidence", "float64", "How sure, 0 to 1.", minimum=0),
        Column("phase_evidence", "string", "How the phase is known."),
        Column("dtype", "string", "Type of the math, which chooses the peak.", null=True),
        Column(
            "flops",
            "float64",
            "Useful operations by the model; a multiply-add is two.",
            "FLOP",
            null=True,
            minimum=0,
        ),
        Column("flops_source", "string", "Where the dimensions come from.", null=True, words=WorkSource),
        Column(
            "dram_bytes",
            "float64",
            "Minimum DRAM traffic by the model: a lower bound.",
            "byte",
            null=True,
            minimum=0,
        ),
        Column("dram_bytes_source", "string", "Where the dimensions come from.", null=True, words=WorkSource),
        Column(
            "flops_hw", "float64", "Operations measured by hardware counters.", "FLOP", null=True, minimum=0
        ),
        Column(
            "dram_bytes_hw",
            "float64",
            "DRAM traffic measured by hardware counters.",
            "byte",
            null=True,
            minimum=0,
        ),
        Column("hw_status", "string", "What is known of the counters.", words=HwStatus),
        Column("flops_per_s", "float64", "flops / dur.", "FLOP/s", null=True, minimum=0),
        Column(
            "dram_bytes_per_s",
            "float64",
            "DRAM bandwidth achieved: measured bytes where there are any, else modelled, over dur.",
            "byte/s",
            null=True,
            minimum=0,
        ),
        Column("arithmetic_intensity", "float64", "flops / dram_bytes.", "FLOP/byte", null=True, minimum=0),
        Column(
            "bound_ns",
            "float64",
            "Least time at the roofs: the largest of work over ceiling.",
            "ns",
            null=True,
            minimum=0,
        ),
        Column("bound_by", "string", "Which roof gives bound_ns.", null=True),
        Column(
            "excess_ns", "float64", "dur - bound; negative where a model or a roof is wrong.", "ns", null=True
        ),
        Column("bottleneck", "string", "What limits it.", words=Bottleneck),
        Column("bottleneck_confidence", "float64", "How sure, 0 to 1.", minimum=0),
        Column("bottleneck_evidence", "string", "Why."),
        Column("flags", "string", "Comma-separated marks, such as before_window or above_roof.", null=True),
    ),
    key=("kernel_id",),
)

STEPS = Table(
    "steps",
    (
        Column("step_id", "int64", "Step number, unique within a report, in order of start."),
        Column("rank", "int32", "Rank of the process in its job.", null=True),
        Column("device", "int32", "Index of the device.", null=True),
        Column("engine", "string", "Engine that ran the step.", null=True),
        Column("phase", "string", "Phase.", words=Phase),
        Column("confidence", "float64", "How sure, 0 to 1.", minimum=0),
        Column("evidence", "string", "How the phase is known."),
        Column("annotation", "string", "Text of the annotation, verbatim.", null=True),
        Column("flags", "string", "Comma-separated marks, such as partial or empty.", null=True),
        Column(
            "ts_ns",
            "int64",
            "Start of the step's device window; of the host range where it has no kernel.",
            "ns",
        ),
        Column("dur_ns", "int64", "Length of that window.", "ns", minimum=0),
        Column("busy_ns", "int64", "Union of its kernels, copies and fills.", "ns", minimum=0),
        Column("n_kernels", "int64", "Kernels launched inside the step.", minimum=0),
        Column("n_post_step_kernels", "int64", "Kernels launched between it and the next step.", minimum=0),
        Column("n_graph_launches", "int64", "Graph replays inside the step.", minimum=0),
        Column("context_requests", "int64", "Requests in prefill.", null=True, minimum=0),
        Column("context_tokens", "int64", "Their query tokens.", "token", null=True, minimum=0),
        Column("generation_requests", "int64", "Requests in decode.", null=True, minimum=0),
        Column("generation_tokens", "int64", "Their query tokens.", "token", null=True, minimum=0),
        Column("sum_q", "float64", "Query tokens summed over requests.", "token", null=True, minimum=0),
        Column(
            "sum_k", "float64", "Key tokens (KV length) summed over requests.", "token", null=True, minimum=0
        ),
        Column(
            "sum_qq", "float64", "Squared query tokens summed over requests.", "token^2", null=True, minimum=0
        ),
        Column(
            "sum_qk",
            "float64",
            "Query times key tokens summed over requests.",
            "token^2",
            null=True,
            minimum=0,
        ),
        Column(
            "context_sum_k",
            "float64",
            "Part of sum_k of the requests in prefill.",
            "token",
            null=True,
            minimum=0,
        ),
        Column(
            "context_sum_qq",
            "float64",
            "Part of sum_qq of the requests in prefill.",
            "token^2",
            null=True,
            minimum=0,
        ),
        Column(
            "context_sum_qk",
            "float64",
            "Part of sum_qk of the requests in prefill.",
            "token^2",
            null=True,
            minimum=0,
        ),
        Column("flops", "float64", "Useful operations of its kernels.", "FLOP", null=True, minimum=0),
        Column("dram_bytes", "float64", "Minimum DRAM traffic of its kernels.", "byte", null=True, minimum=0),
        Column("weight_bytes", "float64", "Weights read, part of dram_bytes.", "byte", null=True, minimum=0),
        Column(
            "kv_bytes",
            "float64",
            "KV cache read and written, part of dram_bytes.",
            "byte",
            null=True,
            minimum=0,
        ),
        Column("mfu", "float64", "Model FLOPs over peak, by step time.", "1", null=True, minimum=0),
        Column(
            "mbu",
            "float64",
            "Weight and KV bytes over DRAM bandwidth, by step time.",
            "1",
            null=True,
            minimum=0,
        ),
    ),
    key=("step_id",),
)

GAPS = Table(
    "gaps",
    (
        Column("rank", "int32", "Rank of the process in its job.", null=True),
        Column("device", "int32", "Index of the device.", null=True),
        Column("step_id", "int64", "Step whose window holds the gap."),
        Column("ts_ns", "int64", "Start.", "ns"),
        Column("dur_ns", "int64", "Length.", "ns", minimum=0),
        Column("cause", "string", "Why the device was idle.", words=GapCause),
        Column("evidence", "string", "How the cause is known."),
    ),
)

QUALITY = Table(
    "quality",
    (
        Column("rank", "int32", "Rank of the process in its job.", null=True),
        Column("code", "string", "Stable word for what happened."),
        Column("count", "int64", "How many events it concerns.", minimum=0),
        Column("time_ns", "int64", "Device time that it concerns.", "ns", null=True),
        Column("message", "string", "One line of what it means and what to do."),
    ),
)

PUBLIC = (KERNELS, STEPS, GAPS, QUALITY)
