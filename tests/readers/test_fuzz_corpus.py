"""Inputs that a coverage-guided fuzzer grew (benchmarks/fuzz_reader.py): each ends in captures or in one line."""

import base64
import json
from pathlib import Path

import pytest

from tracekit.errors import TracekitError
from tracekit.link import link
from tracekit.readers import read_stream
from tracekit.readers.source import from_bytes

CORPUS = [
    base64.b64decode(text) for text in json.loads((Path(__file__).parent / "fuzz_corpus.json").read_text())
]


@pytest.mark.parametrize("data", CORPUS, ids=range(len(CORPUS)))
def test_a_grown_input_gives_captures_or_one_line(data: bytes) -> None:
    try:
        captures = read_stream(from_bytes("fuzz", data), lambda name: len(name) % 2 == 0)
    except TracekitError as error:
        assert "\n" not in error.message
    else:
        assert all(link(capture).kernels["dur_ns"].ge(0).all() for capture in captures)
