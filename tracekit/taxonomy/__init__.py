"""The taxonomy: a family, a type and a phase hint for each kernel, from its name."""

from tracekit.taxonomy.families import name_families
from tracekit.taxonomy.rules import OTHER, demangle

__all__ = ["OTHER", "demangle", "name_families"]
