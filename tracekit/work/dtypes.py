"""Types as recorders spell them, to the words and sizes that tracekit uses."""

# C++ names as Kineto records them (`Input type`), with the spellings of older writers.
CPP_TYPES = {
    "float": "fp32",
    "double": "fp64",
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::Float8_e5m2fnuz": "fp8",
    "c10::Float8_e8m0fnu": "fp8",
    "c10::Float4_e2m1fn_x2": "fp4",
    "signed char": "int8",
    "unsigned char": "int8",
    "char": "int8",
    "c10::qint8": "int8",
    "c10::quint8": "int8",
    "int": "int32",
    "unsigned int": "int32",
    "c10::qint32": "int32",
    "long int": "int64",
    "long": "int64",
    "long long": "int64",
    "__int64": "int64",
    "unsigned long": "int64",
    "short": "int16",
    "short int": "int16",
    "unsigned short": "int16",
    "bool": "bool",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}

# Bytes of one recorded element; a Float4 element holds two values in one byte.
_SIZES = {
    "fp64": 8,
    "fp32": 4,
    "tf32": 4,
    "bf16": 2,
    "fp16": 2,
    "fp8": 1,
    "fp4": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "bool": 1,
    "complex64": 8,
    "complex128": 16,
}

# Numbers of c10::ScalarType, as Concrete Inputs give an `out_dtype` or `dtype` argument.
_SCALAR_TYPES = {
    0: "int8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "fp16",
    6: "fp32",
    7: "fp64",
    11: "bool",
    15: "bf16",
    23: "fp8",
    24: "fp8",
    25: "fp8",
    26: "fp8",
}

FLOATS = frozenset({"fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4"})
INTEGERS = frozenset({"int8", "int16", "int32", "int64"})

# Order of promotion: a later word wins over an earlier one.
_PROMOTION = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "fp4",
    "fp8",
    "fp16",
    "bf16",
    "fp32",
    "fp64",
    "complex64",
    "complex128",
)


def dtype_word(name: str) -> str | None:
    """The word of a recorded type; None where it is no tensor type (`Scalar`, `TensorList`, "")."""
    return CPP_TYPES.get(name)


def element_size(word: str) -> int:
    """Bytes of one recorded element of a type."""
    return _SIZES[word]


def scalar_type(number: int | None) -> str | None:
    """The word of a c10::ScalarType number; None where it is unknown."""
    return None if number is None else _SCALAR_TYPES.get(number)


def promote(words: tuple[str, ...]) -> str:
    """The type that an operation over several types gives; two 16-bit floats of different kind give fp32."""
    if {"fp16", "bf16"} <= set(words) and "fp64" not in words:
        return "fp32"
    return max(words, key=_PROMOTION.index)
