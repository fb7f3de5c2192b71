"""The phase stage: engine steps, and the phase of each kernel with evidence and confidence."""

from tracekit.phase.grammar import place_of_file, wanted_frames
from tracekit.phase.stage import Phased, label

__all__ = ["Phased", "label", "place_of_file", "wanted_frames"]
