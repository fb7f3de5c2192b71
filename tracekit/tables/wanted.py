"""Which Python frames a rule wants: said by the phase stage, kept to by readers."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WantedFrames:
    """A test of a frame's name; patterns alone, so that it can be handed to another process.

    Attributes:
        patterns: Any of them found in a name makes it wanted.
        longest: Longer names are not looked at.
    """

    patterns: tuple[re.Pattern[str], ...]
    longest: int

    def __call__(self, name: str) -> bool:
        """Whether the frame of this name is wanted."""
        return len(name) <= self.longest and any(pattern.search(name) for pattern in self.patterns)
