"""Each distinct signature evaluated once."""

import json
import math
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.work.dtypes import CPP_TYPES, FLOATS, element_size
from tracekit.work.registered import OpKind, OpWork, Registered, find
from tracekit.work.signature import OpCall, parse_call

_KINDS = list(OpKind)
# Products whose operations do not depend on how an element is stored.
_UNTYPED = frozenset(
    {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear", "aten::matmul"}
)
# Any type will do to count their elements.
_STAND_IN, _STAND_IN_CPP = "fp32", "float"
# Where cache-writing ops have their key cache.
_CACHE_AT = {
    "_C_cache_ops::reshape_and_cache": 2,
    "_C_cache_ops::reshape_and_cache_flash": 2,
    "_C_cache_ops::concat_and_cache_mla": 2,
    "sglang::store_cache": 2,
    "_C::cpu_attn_reshape_and_cache": 2,
}


@dataclass(frozen=True, slots=True)
class Signed:
    """What the models say of each signature.

    Attributes:
        kind: Position in OpKind by signature; -1 where no model is registered.
        work: The work by signature; None where there is no model or the sizes do not fit it.
        unreadable: Signatures of modelled ops whose sizes are absent or damaged.
        unmodelled: Signatures of modelled ops whose sizes do not fit the model.
        cache_item: Bytes of one KV-cache element, where the ops that write it agree on one; else None.
    """

    kind: npt.NDArray[np.int64]
    work: list[OpWork | None]
    unreadable: int
    unmodelled: int
    cache_item: float | None


def evaluate_signatures(signatures: pd.DataFrame) -> Signed:
    """Run the models over SIGNATURES, one call a row; damaged rows are counted, never raised on."""
    columns = [
        signatures[name].astype(object).to_list() for name in ("op", "dims", "types", "strides", "concrete")
    ]
    narrowest = _narrowest_float(columns[2])
    kind = np.full(len(signatures), -1, dtype=np.int64)
    work: list[OpWork | None] = []
    unreadable = unmodelled = 0
    items = set()
    for row, (op, *texts) in enumerate(zip(*columns, strict=True)):
        entry = find(str(op))
        if entry is None:
            work.append(None)
            continue
        kind[row] = _KINDS.index(entry.kind)
        call = parse_call(str(op), *texts)
        if str(op) in _UNTYPED and not isinstance(texts[1], str) and isinstance(texts[0], str):
            work.append(_operations_alone(str(op), texts[0], entry))
            unmodelled += work[-1] is None
            continue
        if call is not None and "TensorList" in call.types:
            call = replace(call, list_type=narrowest)
        if call is None and entry.kind is OpKind.VIEW:
            call = OpCall(str(op))
        result = None if call is None else _sane(entry.function(call))
        unreadable += call is None
        unmodelled += call is not None and result is None
        items |= _cache_items(call)
        work.append(result)
    return Signed(kind, work, unreadable, unmodelled, items.pop() if len(items) == 1 else None)


def _operations_alone(op: str, dims: str, entry: Registered) -> OpWork | None:
    """The operations and elements of a product whose types were not recorded, as in NVTX ranges: sizes alone tell them."""
    sizes = parse_call(op, dims, json.dumps([_STAND_IN_CPP] * _arguments(dims)))
    result = None if sizes is None else _sane(entry.function(sizes))
    if result is None or result.dram_bytes is None:
        return None
    item = element_size(_STAND_IN)
    elements = result.dram_bytes / item, result.weight_bytes / item
    return OpWork(result.flops, None, None, None, elements=elements)


def _arguments(dims: str) -> int:
    try:
        return len(msgspec.json.decode(dims, type=list[object]))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return 0


def _narrowest_float(types: list[object]) -> str | None:
    """The narrowest float type that the capture records: exact where it has one, a lower bound where it mixes."""
    recorded = "".join(str(text) for text in types)
    found = [word for name, word in CPP_TYPES.items() if word in FLOATS and f'"{name}"' in recorded]
    return min(found, key=element_size, default=None)


def _sane(work: OpWork | None) -> OpWork | None:
    """The work, unless a number in it is negative or not finite: then the recorded sizes were."""
    if work is None:
        return None
    numbers = [
        value
        for value in (work.flops, work.dram_bytes, work.weight_bytes, work.kv_bytes, work.bus_bytes)
        if value is not None
    ]
    return work if all(math.isfinite(value) and value >= 0 for value in numbers) else None


def _cache_items(call: OpCall | None) -> set[float]:
    at = None if call is None else _CACHE_AT.get(call.name)
    cache = None if call is None or at is None else call.tensor(at)
    return set() if cache is None else {float(cache.item)}
