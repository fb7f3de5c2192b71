"""Kineto Chrome-trace JSON, as torch.profiler and the engines around it write it (torch 1.8 to today)."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress

from tracekit.errors import FormatError
from tracekit.readers.foreign import refuse_foreign
from tracekit.readers.kineto.build import (
    device_events,
    op_rows,
    ranges,
    runtime_calls,
    signatures,
    thread_labels,
)
from tracekit.readers.kineto.categories import DEVICE_BUCKETS, bucket_of
from tracekit.readers.kineto.counters import counters_of
from tracekit.readers.kineto.document import Document
from tracekit.readers.kineto.gather import Gathered, KeepFrame
from tracekit.readers.kineto.helper import Helper, helper_for
from tracekit.readers.kineto.metadata import Metadata, parse
from tracekit.readers.kineto.ranks import in_order
from tracekit.readers.kineto.share import gather, gather_shared
from tracekit.readers.kineto.turns import OutOfStepError
from tracekit.readers.source import Stream
from tracekit.tables import Capture, CaptureInfo, QualityNote

NAME = "kineto"


def sniff(head: bytes) -> bool:
    """Whether the first bytes may be a Kineto trace: a JSON object or array."""
    return head.lstrip()[:1] in {b"{", b"["}


def read(stream: Stream, keep_frame: KeepFrame) -> list[Capture]:
    """Read a Kineto trace to its end: one capture, or one a rank where several were merged into the file.

    Args:
        stream: The document's bytes.
        keep_frame: Whether the Python frame of a name is wanted; the others are counted only.

    Raises:
        FormatError: It is not a Kineto trace, or holds nothing to report.
        CaptureError: The bytes cannot be read.
    """
    helper = helper_for(stream.path, stream.size or 0, gzipped=stream.gzipped)
    if helper is None:
        return _read(stream, keep_frame)
    with closing(helper), suppress(OutOfStepError):
        return _read(stream, keep_frame, helper)
    with closing(stream.again()) as alone:
        return _read(alone, keep_frame)


def _read(stream: Stream, keep_frame: KeepFrame, helper: Helper | None = None) -> list[Capture]:
    document = Document(stream)
    document.open()
    ranks = gather(document, keep_frame) if helper is None else gather_shared(document, keep_frame, helper)
    counts = sum((gathered.counts for gathered in ranks.values()), Counter[str]())
    refuse_foreign(stream.label, document.head, document.tail, counts)
    _refuse_empty(stream.label, counts, list(ranks.values()))
    metadata = parse(
        document.head,
        document.tail,
        capitalised=any(name[:1].isupper() and bucket_of(name) in DEVICE_BUCKETS for name in counts),
    )
    notes = [*document.notes(), *metadata.notes]
    return [
        _capture(stream.label, gathered, metadata, notes, rank)
        for rank, gathered in _by_rank(ranks, metadata.rank)
    ]


def _by_rank(ranks: dict[str, Gathered], known: int | None) -> Iterator[tuple[int | None, Gathered]]:
    """Each rank's tables; rows without a label (spans of the whole file) belong to none."""
    labels = in_order([label for label in ranks if label])
    if not labels:
        yield known, ranks[""]
    for rank, label in enumerate(labels):
        yield rank, ranks[label]


def _refuse_empty(label: str, counts: Counter[str], ranks: list[Gathered]) -> None:
    if not counts:
        raise FormatError(
            label,
            "the trace holds no event",
            hint="the profiler was stopped before anything ran; record again",
            code="no_events",
        )
    if any(gathered.holds_work for gathered in ranks):
        return
    if any(gathered.xla for gathered in ranks):
        raise FormatError(
            label,
            "is a JAX or TensorFlow trace",
            hint="tracekit reads traces of torch.profiler; of XLA programs it reads none yet",
            code="foreign",
        )
    raise FormatError(
        label,
        "neither device work nor CPU ops nor counters in it",
        hint="if an engine wrote several files, this is its front end's: give the worker's",
        code="no_work",
    )


def _missing_work(metadata: Metadata, gathered: Gathered) -> list[QualityNote]:
    if len(gathered.device.parts) or not (metadata.devices or len(gathered.runtime.parts)):
        return []
    return [
        QualityNote(
            "no_kernels",
            len(gathered.runtime.parts),
            "a GPU is listed but no GPU work was recorded: its CPU ops say nothing of kernels; check CUPTI/roctracer permissions and record again",
        )
    ]


def _capture(
    label: str, gathered: Gathered, metadata: Metadata, notes: list[QualityNote], rank: int | None
) -> Capture:
    base = metadata.base_ns
    info = CaptureInfo(
        path=label,
        format=NAME,
        schema=metadata.era,
        devices=metadata.devices,
        rank=rank,
        world_size=metadata.world_size,
        options=metadata.options,
        versions=metadata.versions,
        event_counts=dict(gathered.counts),
    )
    return Capture(
        info=info,
        device_events=device_events(gathered, base),
        runtime_calls=runtime_calls(gathered, base),
        ops=op_rows(gathered, base),
        signatures=signatures(gathered),
        annotations=ranges(gathered.annotations, base),
        frames=ranges(gathered.frames, base),
        threads=thread_labels(gathered),
        quality=(*notes, *gathered.notes(), *_missing_work(metadata, gathered)),
        counters=counters_of(gathered.counter_ranges),
    )
