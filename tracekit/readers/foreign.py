"""Files that are not captures tracekit reads, told by name with the way out."""

from collections.abc import Mapping

from tracekit.errors import FormatError, UnsupportedError

_EXPORT = "export it: nsys export --type sqlite FILE"
_EXPORT_AGAIN = "export the report as SQLite: nsys export --type sqlite FILE.nsys-rep"
_IMPORT = (
    "open it in nsys-ui of the same version, or run QdstrmImporter on it; then nsys export --type sqlite"
)
# Releases may change the first bytes of their reports, not the ending of the name.
_ENDINGS = {
    ".nsys-rep": ("an Nsight Systems report", _EXPORT),
    ".qdrep": ("an Nsight Systems report", _EXPORT),
    ".qdstrm": ("a recording that nsys has not made a report of", _IMPORT),
    ".arrow": ("an Arrow file", f"if nsys exported it, {_EXPORT_AGAIN}"),
}
# (first bytes, what it is, what to do)
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (
        b"version https://git-lfs",
        "a Git LFS pointer, not the file itself",
        "run `git lfs pull` where it was cloned",
    ),
    (b"NVIDIA Tegra Profiler Report", "an Nsight Systems report", _EXPORT),
    (b"NVNSREPT", "an Nsight Systems report", _EXPORT),
    (b"U3w[END]NVIDIA Nsight Systems Stream", "a recording that nsys has not made a report of", _IMPORT),
    (b'{"data":["', "a JSON export of Nsight Systems", _EXPORT_AGAIN),
    (b'data: "', "a text export of Nsight Systems", _EXPORT_AGAIN),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", f"if nsys exported it, {_EXPORT_AGAIN}"),
    (
        b"NVR\x00",
        "an Nsight Compute report inside an archive, a compressed file or a pipe",
        "unpack it, or print it: ncu --import FILE --csv --page raw --print-units base",
    ),
    (
        b"SQLite format 3\x00",
        "an SQLite file inside an archive, a compressed file or a pipe",
        "unpack it, and give the file itself",
    ),
    (b"PAR1", "a Parquet file", "give the trace that it was made from"),
    (b"\x7fELF", "a program", "give the trace that it wrote"),
)
# Top-level fields that give other JSON formats away.
_DOCUMENTS: tuple[tuple[bytes, str, str], ...] = (
    (
        b'"viztracer_metadata"',
        "a VizTracer trace",
        "tracekit reads GPU profiler traces; record with torch.profiler",
    ),
    (b'"stackFrames"', "a Chrome trace of another tool", "give a trace from torch.profiler"),
    (b"speedscope", "a speedscope profile", "give a trace from torch.profiler"),
    (b'"nodes"', "a PyTorch execution trace", "give the Kineto trace of the same run"),
    (b'"libs"', "a Firefox or samply profile", "give a trace from torch.profiler"),
    (b'"benchmarks"', "a pyperf benchmark file", "give a trace from torch.profiler"),
)
_HEAD = 1 << 16


def refuse_magic(label: str, head: bytes) -> None:
    """Refuse a file by its first bytes, or by the ending of its name where they are no text of ours.

    Raises:
        UnsupportedError: It is of a kind that is known and not read.
    """
    for magic, what, hint in _MAGIC:
        if head.startswith(magic):
            raise UnsupportedError(f"{label}: {what}", hint=hint)
    found = next((told for ending, told in _ENDINGS.items() if label.lower().endswith(ending)), None)
    if found is not None and not head.lstrip().startswith((b"{", b"[")):
        raise UnsupportedError(f"{label}: {found[0]}", hint=found[1])


def name_document(head: bytes) -> tuple[str, str] | None:
    """What other JSON format the first bytes are, and the way out."""
    start = head[:_HEAD]
    for mark, what, hint in _DOCUMENTS:
        if mark in start:
            return what, hint
    return None


def refuse_foreign(label: str, head: bytes, tail: bytes, counts: Mapping[str, int]) -> None:
    """Refuse a Chrome trace of another tool, once its events have shown no category of ours.

    Raises:
        FormatError: It is one.
    """
    if any(name.lower() in _OURS for name in counts):
        return
    found = name_document(head) or name_document(tail)
    if found:
        raise FormatError(label, f"is {found[0]}", hint=found[1], code="foreign")


_OURS = frozenset(
    {
        "kernel",
        "cpu_op",
        "operator",
        "cuda_runtime",
        "runtime",
        "cuda_driver",
        "gpu_memcpy",
        "memcpy",
        "python_function",
        "user_annotation",
        "cuda_profiler_range",
    }
)
