"""A small decoder-only transformer with random weights: it does the work of a model, and says nothing."""

from collectors.decoder.cache import LayerCache, allocate
from collectors.decoder.model import Decoder, initialised
from collectors.decoder.step import Group, StepInput

__all__ = ["Decoder", "Group", "LayerCache", "StepInput", "allocate", "initialised"]
