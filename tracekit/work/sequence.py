"""Donors by sequence: a kernel's work from the same kernel at the same place of the repeated layer sequence.

A kernel whose launch the window cut has no op, but the same layers ran again inside the window. Its place is
told by the names and grids of its neighbours on the stream; a donor is accepted only where every kernel with
the same neighbourhood did the same work.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.tables import Kind, WorkSource
from tracekit.tables.columns import column, combined
from tracekit.tables.text import distinct, is_word
from tracekit.work.known import COLUMNS, fill_work, unknown_work

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

# Neighbours before and after that must agree, the surest first. The last ones serve the ends of a sequence.
CONTEXTS = ((12, 12), (6, 6), (3, 3), (2, 2), (0, 8), (8, 0), (0, 4), (4, 0), (1, 1))
_PRIME = np.uint64(0x9E3779B97F4A7C15)


def lend_in_trace(kernels: pd.DataFrame) -> pd.DataFrame:
    """Fill the work of kernels without a launch record from kernels of the same table that have one.

    Args:
        kernels: The output of `model_work`; `op_row` tells which launches were recorded.

    Returns:
        The kernels; what was filled has source `donor`.
    """
    wanting = unknown_work(kernels) & kernels["op_row"].isna().to_numpy()
    return _lend(kernels, wanting, kernels)


def lend_from(kernels: pd.DataFrame, donor: pd.DataFrame) -> pd.DataFrame:
    """Fill work that is unknown from the kernels of another capture of the same work.

    Args:
        kernels: The output of `model_work`.
        donor: The output of `model_work` for the other capture, such as an eager run.

    Returns:
        The kernels; what was filled has source `donor`.
    """
    return _lend(kernels, unknown_work(kernels), donor)


def _lend(kernels: pd.DataFrame, wanting: Bools, donor: pd.DataFrame) -> pd.DataFrame:
    giving = (donor["flops"].notna() | donor["dram_bytes"].notna()).to_numpy()
    giving = giving & is_word(donor, "kind", Kind.KERNEL)
    if not wanting.any() or not giving.any():
        return kernels
    found = _donors(kernels, wanting, donor, giving, ["kind", "name", "grid"])
    # Some recorders put the grid on the launch alone, so a kernel that lost its launch has none to compare.
    gridless = wanting & (found < 0) & kernels["grid"].isna().to_numpy()
    if gridless.any():
        found = np.where(gridless, _donors(kernels, gridless, donor, giving, ["kind", "name"]), found)
    rows = found >= 0
    lent = donor.iloc[found[rows]][list(COLUMNS)].astype(object)
    for name in ("flops", "dram_bytes"):
        lent[f"{name}_source"] = lent[name].notna().map({True: str(WorkSource.DONOR), False: None})
    return fill_work(kernels, rows, lent)


def _donors(
    kernels: pd.DataFrame, wanting: Bools, donor: pd.DataFrame, giving: Bools, identity: list[str]
) -> Ints:
    """For each kernel the position of a donor at the same place of the sequence; -1 where none or not one answer."""
    together = donor is kernels
    tokens, streams = _tokens([kernels] if together else [kernels, donor], identity)
    order = np.lexsort((_starts(kernels, donor, together=together), streams))
    mine = np.arange(len(kernels))
    theirs = mine if together else np.arange(len(kernels), len(kernels) + len(donor))
    work = _work_ids(donor)
    found = np.full(len(kernels), -1, dtype=np.int64)
    wanting = wanting & np.isin(tokens[mine], tokens[theirs][giving])
    for before, after in CONTEXTS:
        if not (wanting & (found < 0)).any():
            break
        hashes, valid = _contexts(tokens, streams, order, before, after)
        given = giving & valid[theirs]
        answers = _unanimous(hashes[theirs][given], work[given], np.flatnonzero(given))
        asking = wanting & (found < 0) & valid[mine]
        found[asking] = _look_up(answers, hashes[mine][asking])
    return found


def _tokens(frames: list[pd.DataFrame], identity: list[str]) -> tuple[Ints, Ints]:
    """What each row is and which stream of which capture it ran on, as numbers."""
    capture = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames])
    lanes = [
        pd.factorize(np.concatenate([column(frame, name) for frame in frames]))[0] + 1
        for name in ("device", "stream")
    ]
    return combined(*(_text_numbers(frames, name) for name in identity)), combined(capture, *lanes)


def _text_numbers(frames: list[pd.DataFrame], name: str) -> Ints:
    """A number for each text of a column, the same in all frames."""
    place: dict[str, int] = {}
    parts = []
    for frame in frames:
        found, number = distinct(frame[name])
        parts.append(np.array([place.setdefault(text, len(place)) for text in found], np.int64)[number])
    return np.concatenate(parts)


def _starts(kernels: pd.DataFrame, donor: pd.DataFrame, *, together: bool) -> Ints:
    mine = kernels["ts_ns"].to_numpy(dtype=np.int64)
    return mine if together else np.concatenate((mine, donor["ts_ns"].to_numpy(dtype=np.int64)))


def _contexts(tokens: Ints, streams: Ints, order: Ints, before: int, after: int) -> tuple[Hashes, Bools]:
    """A hash of each row's neighbourhood on its stream, and whether the neighbourhood is complete."""
    count = len(order)
    words, streams = tokens[order].astype(np.uint64), streams[order]
    hashes: Hashes = np.zeros(count, dtype=np.uint64)
    valid = np.ones(count, dtype=np.bool_)
    place = np.arange(count)
    for shift in range(-before, after + 1):
        at = place + shift
        inside = (at >= 0) & (at < count)
        at = np.clip(at, 0, count - 1)
        valid &= inside & (streams[at] == streams)
        hashes = (hashes ^ (words[at] + np.uint64(1))) * _PRIME
        hashes ^= hashes >> np.uint64(29)
    back_hashes, back_valid = np.empty_like(hashes), np.empty_like(valid)
    back_hashes[order], back_valid[order] = hashes, valid
    return back_hashes, back_valid


def _work_ids(donor: pd.DataFrame) -> Ints:
    """A number for each distinct work, so that equal works compare equal."""
    columns = [name for name in COLUMNS if not name.endswith("_source")]
    numbers = donor.groupby(columns, dropna=False, observed=True, sort=False).ngroup()
    return np.asarray(numbers, dtype=np.int64)


def _unanimous(hashes: Hashes, work: Ints, rows: Ints) -> pd.Series:
    """A donor row by neighbourhood, for neighbourhoods in which all donors did the same work."""
    frame = pd.DataFrame({"hash": hashes, "work": work, "row": rows})
    groups = frame.groupby("hash", sort=False)
    agreed = groups["work"].transform("nunique") == 1
    return frame[agreed].drop_duplicates("hash").set_index("hash")["row"]


def _look_up(answers: pd.Series, hashes: Hashes) -> Ints:
    return answers.reindex(hashes).fillna(-1).to_numpy(dtype=np.int64)
