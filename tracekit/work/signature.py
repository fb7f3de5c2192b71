"""Recorded op signatures, parsed: hostile text gives no call, never an exception and never an evaluation."""

import math
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

import msgspec

from tracekit.work.dtypes import dtype_word, element_size

Dims: TypeAlias = tuple[int, ...]
Shape: TypeAlias = Dims | tuple[Dims, ...] | None

# Above these a recorded size is taken for damage: 2^48 elements would be 280 TB of bytes.
_MAX_DIM = 1 << 48
_MAX_NUMEL = 1 << 60
_MAX_RANK = 16
_MAX_ARGS = 512


@dataclass(frozen=True, slots=True)
class Tensor:
    """One recorded tensor argument.

    Attributes:
        shape: Logical sizes.
        dtype: A dtype word.
        strides: Strides in elements; None where they were not recorded.
    """

    shape: Dims
    dtype: str
    strides: Dims | None = None

    @property
    def numel(self) -> int:
        """Elements, by logical size."""
        return math.prod(self.shape)

    @property
    def stored(self) -> int:
        """Elements that lie in memory: a dimension of stride 0 is an expansion and costs one."""
        if self.strides is None:
            return self.numel
        return math.prod(
            size for size, stride in zip(self.shape, self.strides, strict=True) if stride != 0 or size == 0
        )

    @property
    def item(self) -> int:
        """Bytes of one element."""
        return element_size(self.dtype)

    @property
    def bytes(self) -> int:
        """Bytes that must move to read it once: stored elements times their size."""
        return self.stored * self.item

    @property
    def rows(self) -> int:
        """Product of all sizes but the last; 1 for a vector."""
        return math.prod(self.shape[:-1])


@dataclass(frozen=True, slots=True)
class OpCall:
    """One distinct recorded call of an op.

    Attributes:
        name: Op name, verbatim.
        dims: Sizes by argument; a tuple of tuples for a tensor list, empty for what is no tensor.
        types: Recorded C++ type names by argument.
        strides: Strides by argument, of the same nesting as `dims`; empty where they were not recorded.
        concrete: Values of plain arguments as text; empty where they were not recorded.
        list_type: Dtype word taken for the tensors of a list, whose type is never recorded; None is unknown.
    """

    name: str
    dims: tuple[Shape, ...] = ()
    types: tuple[str, ...] = ()
    strides: tuple[Shape, ...] = ()
    concrete: tuple[str, ...] = ()
    list_type: str | None = None

    def tensor(self, index: int) -> Tensor | None:
        """The tensor at a position; None where there is none, or it is a scalar, a list or of unknown type."""
        if index >= len(self.dims) or index >= len(self.types):
            return None
        shape, word = self.dims[index], dtype_word(self.types[index])
        if word is None or not _is_flat(shape):
            return None
        strides = self.strides[index] if index < len(self.strides) else None
        return Tensor(shape, word, strides if _is_flat(strides) and len(strides) == len(shape) else None)

    def tensors(self) -> tuple[Tensor, ...]:
        """Every plain tensor argument, in order."""
        found = (self.tensor(index) for index in range(len(self.dims)))
        return tuple(tensor for tensor in found if tensor is not None)

    def shapes(self, index: int) -> tuple[Dims, ...]:
        """The sizes in a tensor list; empty where the argument is no list. Its element type is not recorded."""
        if index >= len(self.dims) or index >= len(self.types) or self.types[index] != "TensorList":
            return ()
        value = self.dims[index]
        return tuple(item for item in value if isinstance(item, tuple)) if value else ()

    def text(self, index: int) -> str:
        """The recorded value of a plain argument; empty where it was not recorded."""
        return self.concrete[index] if index < len(self.concrete) else ""

    def integer(self, index: int) -> int | None:
        """The recorded integer at a position; None where it is no integer."""
        number = self.number(index)
        return int(number) if number is not None and number.is_integer() and abs(number) <= _MAX_DIM else None

    def number(self, index: int) -> float | None:
        """The recorded number at a position; None where it is no finite number."""
        try:
            value = float(self.text(index))
        except ValueError:
            return None
        return value if math.isfinite(value) else None

    def flag(self, index: int) -> bool | None:
        """The recorded truth value at a position; None where it was not recorded."""
        return {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}.get(
            self.text(index)
        )

    def integers(self, index: int) -> Dims | None:
        """The recorded list of integers at a position, such as "[1, 2]"; None where it is none."""
        text = self.text(index).strip()
        if not (text.startswith("[") and text.endswith("]")):
            return None
        parts = [part.strip() for part in text[1:-1].split(",") if part.strip()]
        if len(parts) > _MAX_RANK or not all(part.removeprefix("-").isdecimal() for part in parts):
            return None
        values = tuple(int(part) if len(part) < 16 else _MAX_DIM + 1 for part in parts)  # noqa: PLR2004 - 10^15 is no size
        return values if all(abs(value) <= _MAX_DIM for value in values) else None


def _is_flat(shape: Shape) -> TypeGuard[Dims]:
    return shape is not None and not any(isinstance(size, tuple) for size in shape)


def parse_call(
    name: str, dims: str | None, types: str | None, strides: str | None = None, concrete: str | None = None
) -> OpCall | None:
    """A signature's JSON texts as a call.

    Args:
        name: Op name.
        dims: `Input Dims` as recorded; a tensor list is nested one level.
        types: `Input type` as recorded.
        strides: `Input Strides` as recorded.
        concrete: `Concrete Inputs` as recorded.

    Returns:
        The call, or None where dims or types are absent or damaged. Damaged strides or values are dropped
        alone, since a model can do without them.
    """
    sizes = _shapes(dims, 0)
    words = _texts(types)
    if sizes is None or words is None or len(sizes) > _MAX_ARGS or len(words) != len(sizes):
        return None
    return OpCall(name, sizes, words, _shapes(strides, -_MAX_DIM) or (), _texts(concrete) or ())


def _decode(text: str | None) -> object:
    if not isinstance(text, str):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def _texts(text: str | None) -> tuple[str, ...] | None:
    value = _decode(text)
    if not isinstance(value, list):
        return None
    return tuple(item if isinstance(item, str) else "" for item in value)


def _shapes(text: str | None, low: int) -> tuple[Shape, ...] | None:
    value = _decode(text)
    if not isinstance(value, list):
        return None
    shapes = tuple(_shape(item, low) for item in value)
    return None if None in shapes else shapes


def _shape(value: object, low: int) -> Shape:
    if not isinstance(value, list):
        return None
    if value and all(isinstance(item, list) for item in value):
        items = tuple(_dims(item, low) for item in value)
        return None if None in items else items  # type: ignore[return-value]
    return _dims(value, low)


def _dims(value: list[object], low: int) -> Dims | None:
    if len(value) > _MAX_RANK:
        return None
    if not all(type(size) is int and low <= size <= _MAX_DIM for size in value):
        return None
    if low == 0 and math.prod(value) > _MAX_NUMEL:  # type: ignore[arg-type]
        return None
    return tuple(value)  # type: ignore[arg-type]
