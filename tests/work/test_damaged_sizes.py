"""Sizes, types and values that no op has: every model gives no work or finite work, and none raises."""

import json
import math
import random

import numpy as np
import pandas as pd
import pytest

from tracekit.work import OpWork
from tracekit.work.registered import _EXACT, _PATTERNS, evaluate
from tracekit.work.signature import OpCall, parse_call
from tracekit.work.sums import Sums, attention_from_sums

TYPES = ("c10::BFloat16", "float", "int", "long int", "unsigned char", "c10::Float8_e4m3fn", "c10::Float4_e2m1fn_x2", "Scalar", "TensorList", "", "bool")  # fmt: skip
SIZES = (0, 1, 2, 3, 8, 64, 1 << 30)
VALUES = (
    "",
    "0",
    "1",
    "-1",
    "16",
    "True",
    "False",
    "[1, 1]",
    "[True, False, True]",
    "HND",
    "nan",
    "1e400",
    "-5",
)
NAMES = sorted([*_EXACT, *(pattern.replace("*", "x") for pattern in _PATTERNS)])
CALLS_AN_OP = 60
STEPS = Sums.of(
    pd.DataFrame(
        {
            "step_id": [0, 1],
            "sum_q": [4.0, 9.0],
            "sum_k": [100.0, 9.0],
            "sum_qq": [4.0, 81.0],
            "sum_qk": [100.0, 81.0],
            "context_requests": [0, 1],
            "generation_requests": [4, 0],
        }
    ),
    np.array([0.0, 1.0]),
)


def damaged(name: str, dice: random.Random) -> OpCall | None:
    """A call of random arguments; None where they are not even a signature."""
    dims, types, plain = [], [], []
    for _ in range(dice.randint(0, 14)):
        word = dice.choice(TYPES)
        size = [dice.choice(SIZES) for _ in range(dice.randint(0, 5))]
        dims.append({"TensorList": [size, size], "Scalar": [], "": []}.get(word, size))
        types.append(word)
        plain.append(dice.choice(VALUES))
    return parse_call(name, json.dumps(dims), json.dumps(types), None, json.dumps(plain))


@pytest.mark.parametrize("first", sorted({name.partition("::")[0] for name in NAMES}))
def test_no_model_raises_on_damaged_calls(first: str) -> None:
    for name in (name for name in NAMES if name.partition("::")[0] == first):
        dice = random.Random(name)  # noqa: S311 - the same calls in every run
        for _ in range(CALLS_AN_OP):
            call = damaged(name, dice)
            work = None if call is None else evaluate(call)
            assert work is None or isinstance(work, OpWork)
            if work is not None and (work.heads or work.absorbed):
                flops, _bytes, _kv = attention_from_sums(work, STEPS, 2.0)
                assert all(math.isnan(value) or value >= 0 for value in flops), (name, call)
