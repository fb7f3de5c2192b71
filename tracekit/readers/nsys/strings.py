"""Texts of an export, which its tables name by number."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.readers.arrow import Ints, values
from tracekit.readers.database import Database
from tracekit.readers.nsys.schema import STRINGS


@dataclass(slots=True)
class Strings:
    """The texts that were asked for.

    Attributes:
        wanted: Numbers whose text is needed.
        texts: Text by number.
    """

    wanted: set[int] = field(default_factory=set)
    texts: dict[int, str] = field(default_factory=dict)

    def want(self, table: pa.Table, *names: str) -> None:
        """Ask for the texts of these columns."""
        for name in names:
            self.wanted.update(np.unique(values(table, name, -1)).tolist())

    def load(self, database: Database) -> None:
        """Read the texts that were asked for.

        Raises:
            CaptureError: The file is damaged.
        """
        if STRINGS not in database.tables:
            return
        asked = pa.array(sorted(self.wanted), pa.int64())
        for batch in database.batches(STRINGS, ("id",), ("value",)):
            hit = batch.filter(pc.and_(pc.is_in(batch.column(0), asked), pc.is_valid(batch.column(1))))
            self.texts.update(zip(hit.column(0).to_pylist(), hit.column(1).to_pylist(), strict=True))

    def of(self, numbers: Ints) -> list[str | None]:
        """The text of each number."""
        return [self.texts.get(number) for number in numbers.tolist()]
