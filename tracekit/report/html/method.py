"""The appendix: every formula in force."""

FORMULAS = (
    (
        "kernel time",
        "exclusive: each instant of a device belongs to the kernel that started first; op self time on a CPU",
    ),
    ("wall time", "sum of the step windows; the span of the kernels where there are no steps"),
    ("share", "time over all exclusive kernel time of the report"),
    (
        "FLOP/s, DRAM bandwidth",
        "sum of work over sum of time, over the kernels whose FLOPs and bytes are both known",
    ),
    (
        "FLOPs",
        "useful work from recorded dimensions; a multiply-add is two; causal attention counts the lower triangle",
    ),
    (
        "bytes",
        "each operand once: the least traffic possible, hence a lower bound; measured bytes where counters gave them",
    ),
    ("arithmetic intensity", "FLOPs over modelled bytes [FLOP/byte]"),
    ("bound", "max over the roofs of work over roof (Williams, Waterman, Patterson 2009, as times)"),
    ("% of roof", "time at the roof over time taken; always of the roof named (measured or spec)"),
    ("ridge point", "compute roof over DRAM roof [FLOP/byte]"),
    ("MFU", "sum over dtypes of FLOPs over peak, over wall time (Chowdhery et al. 2022)"),
    ("MBU", "weight and KV bytes over (wall time times DRAM bandwidth) (Databricks 2023)"),
    ("coverage", "shares of kernel time that are linked, phase-labelled, modelled and classified"),
)
