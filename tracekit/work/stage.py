"""The work stage: recorded sizes, then donors, then a model's dimensions; each fills what is still unknown."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.models import ModelConfig
from tracekit.tables import Capture, Linked, QualityNote
from tracekit.tables.columns import is_true
from tracekit.tables.text import category, where, with_flag
from tracekit.work.attribute import model_work
from tracekit.work.config import Stored, apply_config
from tracekit.work.identify import Traits, identify, traits
from tracekit.work.known import unknown_work
from tracekit.work.replay import graph_donor, lend_to_replays
from tracekit.work.sequence import lend_from, lend_in_trace
from tracekit.work.slope import slope_notes

# Flag of kernels whose weights are those of the expected number of experts.
EXPECTED = "expected_experts"
# Recorders that record no sizes of ops.
_SHAPELESS = frozenset({"nsys", "rocprof"})
# Below this share of time without work nothing is said of it.
_QUIET = 0.1


@dataclass(frozen=True, slots=True)
class Worked:
    """The output of the work stage.

    Attributes:
        kernels: The kernels with work, and the internal columns weight_bytes, kv_bytes and peak.
        config: The model whose dimensions were used; None where none was.
        quality: What was found out by itself, and what is missing.
    """

    kernels: pd.DataFrame
    config: ModelConfig | None = None
    quality: tuple[QualityNote, ...] = ()


def find_work(
    kernels: pd.DataFrame,
    capture: Capture,
    linked: Linked,
    steps: pd.DataFrame,
    *,
    donors: Sequence[tuple[Capture, Linked]] = (),
    config: ModelConfig | None = None,
    candidates: Sequence[ModelConfig] = (),
    stored: Stored | None = None,
) -> Worked:
    """FLOPs and minimum DRAM bytes of each kernel, from every source, the surest first.

    Args:
        kernels: The labelled kernels: LINKED with `family`, `name_dtype` and `step_id`.
        capture: The capture that they are of.
        linked: Its op tree.
        steps: STEPS.
        donors: Other captures of the same work: of its graphs, or an eager run.
        config: The model, or what one rank holds of it.
        candidates: Models to look among where `config` is None: one is used where the recorded sizes name it.
        stored: How the model's numbers are stored.

    Raises:
        TableError: A table breaks its contract.
    """
    worked = lend_in_trace(model_work(kernels, linked.ops, capture.signatures, steps))
    graphs = [graph_donor(*donor) for donor in donors]
    worked = lend_to_replays(worked, graphs, steps)
    for donor, donor_linked in donors:
        lending = model_work(donor_linked.kernels, donor_linked.ops, donor.signatures)
        worked = lend_from(worked, lending)
    used, notes = config, []
    ordered = all(note.code != "summary_only" for note in capture.quality)
    if used is None and candidates and unknown_work(worked).any():
        used = identify(_traits(capture, donors), candidates)
        if used is not None:
            message = f"recorded sizes agree with {used.name} alone: its dimensions fill what was not recorded; --model says otherwise"
            notes.append(QualityNote("model_identified", 1, message))
    if used is not None and ordered:
        worked = apply_config(worked, steps, used, stored)
    worked, expected = _expected(worked)
    notes.extend(expected)
    kept = stored or Stored()
    notes.extend(slope_notes(worked, steps, used, kept.kv_item or kept.item))
    notes.extend(_missing(worked, used, capture))
    return Worked(worked, used, tuple(notes))


def _traits(capture: Capture, donors: Sequence[tuple[Capture, Linked]]) -> Traits:
    found = traits(capture.signatures)
    for donor, _linked in donors:
        found |= traits(donor.signatures)
    return found


def _expected(kernels: pd.DataFrame) -> tuple[pd.DataFrame, list[QualityNote]]:
    """Kernels with weights of the expected number of experts, flagged and said."""
    rows = (kernels["expected_bytes"] > 0).to_numpy(dtype=bool)
    if not rows.any():
        return kernels, []
    share = kernels["expected_bytes"].sum() / max(1.0, kernels["weight_bytes"].sum())
    text = (
        "which experts were touched is not recorded: as many as uniform routing touches are taken, "
        f"an upper value; theirs are {share:.0%} of the weight bytes"
    )
    note = QualityNote("experts_expected", int(rows.sum()), text, int(kernels.loc[rows, "dur_ns"].sum()))
    return kernels.assign(flags=with_flag(category(kernels, "flags"), rows, EXPECTED)), [note]


def _missing(kernels: pd.DataFrame, config: ModelConfig | None, capture: Capture) -> list[QualityNote]:
    """What to give where much time has no work."""
    unknown = unknown_work(kernels)
    time, total = int(kernels.loc[unknown, "dur_ns"].sum()), int(kernels["dur_ns"].sum())
    if time <= _QUIET * total:
        return []
    if any(note.code == "summary_only" for note in capture.quality):
        text = "kernels of a summary have no order, so no model's layers can be told among them: give the SQLite export, with --model"
        return [QualityNote("work_unknown", int(unknown.sum()), text, time)]
    if config is not None and _keyless(kernels, unknown) > time / 2:
        text = "attention kernels have no recorded sizes, and their steps give no key lengths: record shapes, or with an annotation that sums them"
        return [QualityNote("work_unknown", int(unknown.sum()), text, time)]
    graph = is_true(kernels, "from_graph") & unknown
    replayed = int(kernels.loc[graph, "dur_ns"].sum())
    if replayed >= time / 2:
        way = "give --donor CAPTURE (the engine's trace of graph capture)"
    elif capture.info.format in _SHAPELESS:
        way = "give --donor CAPTURE (a trace of torch.profiler with shapes)"
    else:
        way = "record shapes"
    more = "" if config is not None else ", or --model NAME|config.json"
    return [
        QualityNote("work_unknown", int(unknown.sum()), f"kernels have no recorded sizes: {way}{more}", time)
    ]


def _keyless(kernels: pd.DataFrame, unknown: npt.NDArray[np.bool_]) -> int:
    """Time of attention kernels among those without work."""
    attention = where(kernels["family"], lambda family: family.startswith("attn"))
    return int(kernels.loc[unknown & attention, "dur_ns"].sum())
