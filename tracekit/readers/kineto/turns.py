"""Whose turn a batch is, where two processes read one file.

The numbers of the batches lie in a pipe, in order. Who is free takes the next one: reads of a pipe are atomic, so
that every batch belongs to one process, and the quicker one takes more.
"""

import os

_WIDTH = 4
MOST = 65_536 // _WIDTH
"""Numbers that a pipe of the usual size holds; more batches than that are for one process."""


class OutOfStepError(Exception):
    """The processes cannot be sure to cut the file alike; one alone must read it from its start."""


class Turns:
    """The batches that are this process's own.

    State: the number that it took and has not come to yet.

    Args:
        pipe: The reading end of a pipe that `number_batches` filled.
        last: Whether what follows the last batch belongs to this process.
    """

    def __init__(self, pipe: int, *, last: bool) -> None:
        self.last = last
        self._pipe = pipe
        self._taken = -1

    def mine(self, batch: int) -> bool:
        """Whether a batch belongs to this process, which asks for each in order.

        Raises:
            OutOfStepError: There are more batches than numbers.
        """
        if self._taken < batch:
            number = os.read(self._pipe, _WIDTH)
            if not number:
                raise OutOfStepError
            self._taken = int.from_bytes(number, "little")
        return self._taken == batch


def number_batches() -> int:
    """The reading end of a pipe with the numbers of batches in it."""
    reading, writing = os.pipe()
    os.write(writing, b"".join(number.to_bytes(_WIDTH, "little") for number in range(MOST)))
    os.close(writing)
    return reading
