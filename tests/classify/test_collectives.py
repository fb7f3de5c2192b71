"""Waiting for peers is told from transfer where several ranks are given."""

import numpy as np
import pandas as pd

from tracekit.classify import peer_waits


def frame(rows: list[tuple[int | None, str, int, int]], family: str = "comm.nccl") -> pd.DataFrame:
    ranks, names, starts, lengths = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            "rank": pd.array(ranks, dtype="Int32"),
            "name": names,
            "ts_ns": starts,
            "dur_ns": lengths,
            "family": family,
        }
    )


def test_the_rank_that_came_first_waited() -> None:
    rows = frame(
        [
            (0, "AllReduce", 0, 100),
            (1, "AllReduce", 70, 30),
            (0, "AllReduce", 200, 25),
            (1, "AllReduce", 190, 35),
        ]
    )
    assert list(peer_waits(rows)) == [70, 0, 0, 10]


def test_names_whose_counts_differ_are_left_out() -> None:
    rows = frame([(0, "AllReduce", 0, 100), (1, "AllReduce", 70, 30), (0, "AllGather", 200, 25)])
    assert list(peer_waits(rows))[:2] == [70, 0]
    assert np.isnan(peer_waits(rows).iloc[2])


def test_one_rank_says_nothing_of_its_peers() -> None:
    assert peer_waits(frame([(0, "AllReduce", 0, 100), (0, "AllReduce", 200, 30)])).isna().all()
    assert peer_waits(frame([(None, "AllReduce", 0, 100)])).isna().all()


def test_other_kernels_do_not_wait_for_peers() -> None:
    assert peer_waits(frame([(0, "gemm", 0, 100), (1, "gemm", 0, 30)], family="gemm")).isna().all()
