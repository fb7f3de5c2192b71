"""Kernels of two builds: the same, another instance, replaced, gone."""

from typing import Any

import pandas as pd
import pytest

from tracekit.compare.matching import match_kernels, normalised, paired


def groups(*rows: Any) -> Any:
    named = ["phase", "name", "family", "op", "shape", "time_ns", "count"]
    frame = pd.DataFrame([("decode", *row) for row in rows], columns=named)
    empty = {"flops": float("nan"), "dram_bytes": float("nan"), "bound_ns": float("nan"), "known_ns": 0.0}
    return frame.assign(plain_name=frame["name"].map(normalised), bottleneck="dram", **empty)


def matched(base: Any, new: Any) -> Any:
    table = paired(*match_kernels(base, new))
    return {
        (row["names_base"], row["names_new"]): row["how"]
        for row in table.astype(object).where(table.notna(), None).to_dict("records")
    }


def test_numbers_of_tiles_and_architectures_are_no_part_of_a_normalised_name() -> None:
    assert normalised("sm90_gemm_128x64<4, 0x1f>") == normalised("sm80_gemm_64x64<8, 0x2a>")


def test_kernels_match_by_name_then_instance_then_role() -> None:
    base = groups(
        ("same", "norm", "n", 1, 10, 1),
        ("tile_64", "gemm", "mm", 2, 10, 1),
        ("fa2_fwd", "attn", "sdpa", 3, 10, 1),
        ("old", "copy", "c", 4, 10, 1),
    )
    new = groups(
        ("same", "norm", "n", 1, 9, 1),
        ("tile_128", "gemm", "mm", 2, 8, 1),
        ("flash_three", "attn", "sdpa", 3, 5, 1),
        ("fresh", "rope", "r", 5, 10, 1),
    )
    assert matched(base, new) == {
        (("same",), ("same",)): "exact",
        (("tile_64",), ("tile_128",)): "normalised",
        (("fa2_fwd",), ("flash_three",)): "role",
        (("old",), None): "disappeared",
        (None, ("fresh",)): "appeared",
    }


def test_time_is_neither_lost_nor_counted_twice() -> None:
    base = groups(("a1", "gemm", "mm", 2, 10, 1), ("b", "gemm", "mm", 2, 20, 1), ("b", "gemm", "mm", 6, 3, 1))
    new = groups(("c", "gemm", "mm", 2, 7, 1), ("a2", "gemm", "mm", 2, 5, 1))
    table = paired(*match_kernels(base, new))
    assert (table["time_ns_base"].sum(), table["time_ns_new"].sum()) == (pytest.approx(33), pytest.approx(12))
