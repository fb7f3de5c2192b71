"""How wide one stored weight is, as far as a kernel's name tells."""

import re

# Bytes of one stored weight: 4 bits and a scale a block of 32, of 16, a group of 128.
_WEIGHT_ITEMS = (
    (re.compile(r"mxfp4|mxe2m1", re.IGNORECASE), 0.5 + 1 / 32),
    (re.compile(r"nvfp4|nvf4|e2m1|fp4", re.IGNORECASE), 0.5 + 1 / 16),
    (re.compile(r"marlin|awq|gptq|int4|w4a|u4b8", re.IGNORECASE), 0.5 + 2 / 128),
    (re.compile(r"fp8|e4m3|e5m2|float8|F8_?F8", re.IGNORECASE), 1.0),
    (re.compile(r"i8816|int8|_i8_|imma", re.IGNORECASE), 1.0),
)
_LONGEST_READ = 4096


def weight_item(name: str) -> float | None:
    """Bytes of one stored weight that a kernel's name tells, scales included; None where it tells nothing."""
    seen = name[:_LONGEST_READ]
    return next((item for pattern, item in _WEIGHT_ITEMS if pattern.search(seen)), None)
