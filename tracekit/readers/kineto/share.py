"""A large file read by two processes, which take turns with its batches.

Making columns of JSON is work of one interpreter; on two cores a second one halves the time. Both read the file,
cut it into the same batches, and decode the ones that are theirs; where one of them meets anything that is more
than decoding (damage, events that pair across batches), the file is read again by one alone, so that sharing never
changes what is read.
"""

import gc
import pickle
import sys
from typing import cast

from tracekit.readers.kineto.document import Document
from tracekit.readers.kineto.gather import Gathered, KeepFrame, Ranks
from tracekit.readers.kineto.helper import Helper
from tracekit.readers.kineto.merge import merge
from tracekit.readers.kineto.ranks import split
from tracekit.readers.kineto.turns import OutOfStepError, Turns
from tracekit.readers.source import open_stream


def gather(document: Document, keep_frame: KeepFrame, helper: Helper | None = None) -> Ranks:
    """The tables of each rank that is in a document.

    Args:
        document: Opened.
        keep_frame: Whether the Python frame of a name is wanted.
        helper: The process that takes turns with this one.

    Raises:
        OutOfStepError: Two processes cannot read this file.
    """
    ranks: Ranks = {}
    for events in document.batches():
        for label, pile in split(events).items():
            if label not in ranks:
                ranks[label] = Gathered(keep_frame)
            ranks[label].add(pile, document.number)
        if document.turns is not None and any(gathered.spans_batches for gathered in ranks.values()):
            raise OutOfStepError
        if helper is not None and helper.gave_up:
            raise OutOfStepError
    return ranks


def gather_shared(document: Document, keep_frame: KeepFrame, helper: Helper) -> Ranks:
    """The tables of each rank, gathered by this process and a helper.

    Raises:
        OutOfStepError: The file must be read by one process.
    """
    document.turns = helper.turns
    helper.tell(keep_frame)
    ranks = gather(document, keep_frame, helper)
    for label, other in helper.result().items():
        if label in ranks:
            merge(ranks[label], other)
        else:
            ranks[label] = other
    return ranks


class _Told:
    """Which Python frames are wanted, as the first process says when it knows."""

    def __init__(self) -> None:
        self._wanted: KeepFrame | None = None

    def __call__(self, name: str) -> bool:
        if self._wanted is None:
            self._wanted = cast("KeepFrame", pickle.load(sys.stdin.buffer))  # noqa: S301 - our own parent wrote it
        return self._wanted(name)


def main() -> None:
    """The second process: read the file named on the command line, write what was gathered to standard output."""
    gc.disable()
    document = Document(open_stream(sys.argv[1]), Turns(int(sys.argv[2]), last=False))
    document.open()
    try:
        ranks = gather(document, _Told())
    except OutOfStepError:
        sys.exit(1)
    for gathered in ranks.values():
        gathered.keep_frame = bool
    pickle.dump(ranks, sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
    # The first process waits for this one to end: it must not look for cycles before it does.
    gc.freeze()
