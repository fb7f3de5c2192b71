"""Units as ncu spells them, in base units: `Gbyte/second` is byte/second times 1e9, `cycle/nsecond` cycle/second."""

from functools import cache

_PREFIX = {"": 1.0, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "K": 1e3, "k": 1e3}
_PREFIX |= {"M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
# Spelling → word; the prefix stands before the spelling.
_SCALED = {
    "byte": "byte",
    "bytes": "byte",
    "B": "byte",
    "second": "second",
    "seconds": "second",
    "s": "second",
    "hz": "cycle/second",
    "Hz": "cycle/second",
    "cycle": "cycle",
    "cycles": "cycle",
    "inst": "inst",
    "sector": "sector",
    "sectors": "sector",
    "request": "request",
    "thread": "thread",
    "warp": "warp",
    "block": "block",
}
_PLAIN = {"%", "pass", "register", "sample", "SM", "SMs", "", "ratio", "op", "ops", "flop", "wave", "cluster"}


@cache
def base_unit(text: str) -> tuple[str, float] | None:
    """The base unit of a spelling and the factor to it; None where the spelling is not known.

    Prefixes are decimal: 1 Gbyte is 1e9 byte.
    """
    parts = [_term(part) for part in text.strip().split("/")]
    if None in parts:
        return None
    words = [part[0] for part in parts if part is not None]
    factors = [part[1] for part in parts if part is not None]
    factor = factors[0]
    for under in factors[1:]:
        factor /= under
    return "/".join(words), factor


def _term(text: str) -> tuple[str, float] | None:
    if text in _PLAIN:
        return text, 1.0
    if text in _SCALED:
        return _SCALED[text], 1.0
    word, factor = _SCALED.get(text[1:]), _PREFIX.get(text[:1])
    return None if word is None or factor is None else (word, factor)
