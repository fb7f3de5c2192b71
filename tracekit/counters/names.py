"""One spelling for a kernel's name, whichever tool printed it.

Profilers differ in how they print templates: `(int)4` or `4`, `4ul`, `(anonymous namespace)` or `<unnamed>`, spaces,
`[lambda(int) (instance 1)]` or `{lambda(int)#1}`, with or without return type and parameters.
"""

import re
from dataclasses import dataclass
from functools import cache

from pycxxfilt import demangle

_ANONYMOUS = re.compile(
    r"\(anonymous namespace\)|<unnamed>|\{anonymous\}|\(anonymous\)|_GLOBAL__N__\w+|_NV_ANON_NAMESPACE\w*|`anonymous namespace'"
)
_CAST = re.compile(r"\((?:[A-Za-z_][\w:]*)(?:\s+[A-Za-z_]\w*)*\)(?=\s*-?\d)")
_SUFFIX = re.compile(r"(?<![\w.])(-?\d+)(?:[uU]?[lL]{1,2}|[uU])(?!\w)")
_BOOL = re.compile(r"(?<![\w:])(true|false)(?!\w)")
_WORDS = (
    (re.compile(r"\b(?:c10|at)::BFloat16\b|\b__nv_bfloat16\b|\bnv_bfloat16\b"), "bfloat16"),
    (re.compile(r"\b(?:c10|at)::Half\b|\b__half\b"), "half"),
    (re.compile(r"\bunsigned long long\b|\bunsigned long\b"), "ulong"),
    (re.compile(r"\blong long\b|\blong int\b"), "long"),
)
_CONST = re.compile(r"\bconst\b")
_CLONE = re.compile(r"\s*\[clone [^\]]*\]$|\.kd$")
_OPEN, _CLOSE = "<([{", ">)]}"
_LONGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Name:
    """A kernel's name in one spelling.

    Attributes:
        full: With its template arguments, without return type, parameters and spaces.
        base: The function alone, without namespaces.
        bare: It was printed without template arguments and parameters, so that `full` may be less than the name.
    """

    full: str
    base: str
    bare: bool


@cache
def canonical_name(text: str) -> Name:
    """The one spelling of a name."""
    plain = _CLONE.sub("", _demangled(text.strip())[:_LONGEST])
    plain = plain.replace("[lambda(", "{lambda(")
    plain = re.sub(r"\s*\(instance (\d+)\)\]", r"#\1}", plain)
    plain = _CAST.sub("", _ANONYMOUS.sub("@anon", plain))
    # `const T&` and `T const&` are one type, and no two kernels differ in it alone.
    plain = _SUFFIX.sub(r"\1", _CONST.sub("", plain)).strip()
    plain = _BOOL.sub(lambda match: "1" if match[1] == "true" else "0", plain)
    for pattern, word in _WORDS:
        plain = pattern.sub(word, plain)
    signature = _without_parameters(plain)
    function = _after_return_type(signature)
    full = re.sub(r"\s+", "", function)
    return Name(full, _base(full), bare="<" not in full and signature == plain)


def _demangled(text: str) -> str:
    if not text.startswith("_Z"):
        return text
    try:
        return str(demangle(text))
    except ValueError:
        return text


def _depths(text: str) -> list[int]:
    """How many brackets are open before each character; arrows and shifts are none."""
    out, depth = [], 0
    for at, char in enumerate(text):
        if char in _CLOSE and not (char == ">" and text[at - 1 : at] == "-"):
            depth = max(0, depth - 1)
        out.append(depth)
        if char in _OPEN:
            depth += 1
    return out


def _without_parameters(text: str) -> str:
    """The text up to the parameters, which are the last brackets that nothing encloses."""
    if not text.endswith(")"):
        return text
    depths = _depths(text)
    starts = [at for at, char in enumerate(text) if char == "(" and depths[at] == 0]
    start = starts[-1] if starts else 0
    # `operator()` without parameters is a name, not a list of them.
    if start == 0 or text[:start].endswith("operator"):
        return text
    return text[:start]


def _after_return_type(text: str) -> str:
    depths = _depths(text)
    spaces = [at for at, char in enumerate(text) if char == " " and depths[at] == 0]
    return text[spaces[-1] + 1 :] if spaces else text


def _base(full: str) -> str:
    depths = _depths(full)
    outside = "".join(char for char, depth in zip(full, depths, strict=True) if depth == 0)
    flat = re.sub(r"[<(\[{][>)\]}]|[<>]", "", outside)
    return flat.rsplit("::", 1)[-1] or full
