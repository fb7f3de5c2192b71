"""One short way to write a recorded call: `aten::mm bf16[512,4096] bf16[4096,4096]`.

Arguments: `bf16[2,3]` a tensor, `bf16[2,3]/0,1` one with strides, `=True` a plain value, `list[2,3;2,3]` a tensor
list, `-` an absent one.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tracekit.work import OpWork
from tracekit.work.registered import evaluate
from tracekit.work.signature import OpCall, parse_call

CPP = {
    "fp64": "double",
    "fp32": "float",
    "bf16": "c10::BFloat16",
    "fp16": "c10::Half",
    "fp8": "c10::Float8_e4m3fn",
    "fp4": "c10::Float4_e2m1fn_x2",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int32": "int",
    "int64": "long int",
    "bool": "bool",
}


def _argument(text: str) -> tuple[list[Any], str, list[int], str]:
    if text == "-":
        return [], "", [], ""
    if text.startswith("="):
        return [], "ScalarList" if text.startswith("=[") else "Scalar", [], text[1:]
    name, _, rest = text.partition("[")
    sizes, _, strides = rest.partition("]")
    if name == "list":
        return [_numbers(part) for part in sizes.split(";")], "TensorList", [], ""
    return _numbers(sizes), CPP[name], _numbers(strides.removeprefix("/")), ""


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def recorded(text: str) -> OpCall:
    op, *arguments = text.split()
    dims, types, strides, concrete = (
        json.dumps(column) for column in zip(*map(_argument, arguments), strict=True)
    )
    call = parse_call(op, dims, types, strides, concrete)
    assert call is not None, text
    return call


@pytest.fixture
def work_of() -> Callable[[str], OpWork | None]:
    return lambda text: evaluate(recorded(text))


@pytest.fixture
def call_of() -> Callable[[str], OpCall]:
    return recorded
