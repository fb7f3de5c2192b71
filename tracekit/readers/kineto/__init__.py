"""Kineto Chrome-trace JSON, as torch.profiler and the engines around it write it (torch 1.8 to today)."""

from tracekit.errors import FormatError
from tracekit.readers.foreign import refuse_foreign
from tracekit.readers.kineto.categories import DEVICE_BUCKETS, bucket_of
from tracekit.readers.kineto.document import Document
from tracekit.readers.kineto.gather import Gathered, KeepFrame
from tracekit.readers.kineto.metadata import Metadata, parse
from tracekit.readers.source import Stream
from tracekit.tables import Capture, CaptureInfo, QualityNote

NAME = "kineto"


def sniff(head: bytes) -> bool:
    """Whether the first bytes may be a Kineto trace: a JSON object or array."""
    return head.lstrip()[:1] in {b"{", b"["}


def read(stream: Stream, keep_frame: KeepFrame) -> Capture:
    """Read a Kineto trace to its end.

    Args:
        stream: The document's bytes.
        keep_frame: Whether the Python frame of a name is wanted; the others are counted only.

    Raises:
        FormatError: It is not a Kineto trace, or holds nothing to report.
        CaptureError: The bytes cannot be read.
    """
    document = Document(stream)
    document.open()
    gathered = Gathered(keep_frame)
    for events in document.batches():
        gathered.add(events)
    refuse_foreign(stream.label, document.head, document.tail, gathered.counts)
    metadata = parse(document.head, document.tail, capitalised=any(name[:1].isupper() and bucket_of(name) in DEVICE_BUCKETS for name in gathered.counts))
    _refuse_empty(stream.label, gathered)
    notes = [*document.notes(), *gathered.notes(), *metadata.notes, *_missing_work(metadata, gathered)]
    return _capture(stream.label, gathered, metadata, notes)


def _refuse_empty(label: str, gathered: Gathered) -> None:
    if not gathered.counts:
        raise FormatError(label, "the trace holds no event", hint="the profiler was stopped before anything ran; record again", code="no_events")
    if not (len(gathered.device.parts) or len(gathered.ops.parts) or gathered.counter_ranges or len(gathered.runtime.parts)):
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


def _capture(label: str, gathered: Gathered, metadata: Metadata, notes: list[QualityNote]) -> Capture:
    base = metadata.base_ns
    info = CaptureInfo(
        path=label,
        format=NAME,
        schema=metadata.era,
        devices=metadata.devices,
        rank=metadata.rank,
        world_size=metadata.world_size,
        options=metadata.options,
        versions=metadata.versions,
        event_counts=dict(gathered.counts),
    )
    return Capture(
        info=info,
        device_events=gathered.device_events(base),
        runtime_calls=gathered.runtime_calls(base),
        ops=gathered.op_rows(base),
        signatures=gathered.signatures(),
        annotations=gathered.ranges(gathered.annotations, base),
        frames=gathered.ranges(gathered.frames, base),
        threads=gathered.threads,
        quality=tuple(notes),
    )
