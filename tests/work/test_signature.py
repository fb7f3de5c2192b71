"""Recorded signatures are a stranger's text: they parse, or there is no call."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.work import OpWork, parse_call
from tracekit.work.registered import _EXACT, _PATTERNS
from tracekit.work.signature import OpCall, Tensor
from tracekit.work.signed import _sane


def test_a_tensor_has_its_sizes_type_and_strides() -> None:
    call = parse_call(
        "aten::mm", "[[2, 3], [3, 4]]", '["float", "c10::BFloat16"]', "[[3, 1], [1, 3]]", '["", ""]'
    )
    assert call is not None
    assert call.tensor(0) == Tensor((2, 3), "fp32", (3, 1))
    assert call.tensor(1) == Tensor((3, 4), "bf16", (1, 3))
    assert call.tensor(2) is None


def test_plain_values_are_read_by_kind() -> None:
    call = OpCall("f", ((),) * 6, ("Scalar",) * 6, (), ("True", "0.", "[1, -2]", "3", "", "1e400"))
    assert call.flag(0) is True
    assert call.number(1) == 0.0
    assert call.integers(2) == (1, -2)
    assert call.integer(3) == 3
    assert (call.flag(4), call.number(4), call.integer(4), call.integers(4)) == (None, None, None, None)
    assert call.number(5) is None


def test_a_tensor_list_gives_its_sizes_alone() -> None:
    call = parse_call("aten::cat", "[[[2, 3], [4, 3]], []]", '["TensorList", "Scalar"]')
    assert call is not None
    assert call.shapes(0) == ((2, 3), (4, 3))
    assert call.tensor(0) is None


def test_an_expanded_dimension_is_stored_once() -> None:
    assert Tensor((8, 16), "fp32", (0, 1)).bytes == 64
    assert Tensor((8, 0), "fp32", (0, 1)).bytes == 0


@pytest.mark.parametrize(
    ("dims", "types"),
    [
        (None, '["float"]'),
        ("[[2]]", None),
        ("[[2]", '["float"]'),
        ("{}", '["float"]'),
        ("[[2], [3]]", '["float"]'),
        ("[[-2]]", '["float"]'),
        ("[[2.5]]", '["float"]'),
        ('[["2"]]', '["float"]'),
        ("[[true]]", '["float"]'),
        ("[[999999999999999999999999]]", '["float"]'),
        ("[[1000000000000,1000000000000]]", '["float"]'),
        ("[[NaN]]", '["float"]'),
        ("[" * 5000, '["float"]'),
        ("[[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]]", '["float"]'),
        ("__import__('os').system('true')", '["float"]'),
        ("[[2]]", "\ud800"),
    ],
)
def test_damaged_sizes_give_no_call(dims: str | None, types: str | None) -> None:
    assert parse_call("aten::relu", dims, types) is None


def test_damaged_strides_and_values_are_dropped_alone() -> None:
    call = parse_call("aten::relu", "[[2]]", '["float"]', "[[", '{"a": 1}')
    assert call is not None
    assert call.tensor(0) == Tensor((2,), "fp32", None)
    assert call.text(0) == ""


def test_strides_of_another_rank_are_not_believed() -> None:
    call = parse_call("aten::relu", "[[2, 3]]", '["float"]', "[[1]]")
    assert call is not None
    assert call.tensor(0) == Tensor((2, 3), "fp32", None)


SIZES = st.lists(st.integers(0, 1 << 15), max_size=5).map(tuple)
VALUES = st.sampled_from(
    [
        "",
        "True",
        "False",
        "0",
        "1",
        "-1",
        "7",
        "1e308",
        "-281474976710656",
        "[1]",
        "[0]",
        "[1, 1]",
        "[-9, 2]",
        "[]",
        "bfloat16",
    ]
)
TYPES = st.sampled_from(
    ["float", "c10::BFloat16", "int", "long int", "bool", "Scalar", "ScalarList", "", "c10::Float4_e2m1fn_x2"]
)


@settings(deadline=None)
@given(st.data())
def test_no_model_raises_or_gives_negative_work_on_any_sizes(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(_EXACT) + sorted(_PATTERNS)))
    count = data.draw(st.integers(0, 9))
    several = {"min_size": count, "max_size": count}
    dims = data.draw(st.lists(SIZES | st.lists(SIZES, min_size=1, max_size=3).map(tuple), **several))
    types = data.draw(st.lists(TYPES, **several))
    types = [
        "TensorList" if size and isinstance(size[0], tuple) else word
        for size, word in zip(dims, types, strict=True)
    ]
    concrete = data.draw(st.lists(VALUES, **several))
    call = OpCall(name.replace("*", "0"), tuple(dims), tuple(types), (), tuple(concrete), list_type="bf16")
    entry = _EXACT.get(name) or _PATTERNS[name]
    work = _sane(entry.function(call))
    assert work is None or (work.flops or 0) >= 0


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 64), st.integers(1, 8))
def test_more_rows_mean_more_work(m: int, n: int, k: int, more: int) -> None:
    small = _mm(m, n, k)
    large = _mm(m + more, n, k)
    assert large.flops > small.flops
    assert large.dram_bytes > small.dram_bytes
    assert large.weight_bytes == small.weight_bytes


def _mm(m: int, n: int, k: int) -> OpWork:
    return _EXACT["aten::mm"].function(OpCall("aten::mm", ((m, k), (k, n)), ("float", "float")))
