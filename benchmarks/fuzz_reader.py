"""Coverage-guided fuzzing of the Kineto reader (needs the package `atheris`).

usage: fuzz_reader.py CORPUS_FOLDER [libFuzzer options, such as -max_total_time=1800]

The reader must end with captures or with a TracekitError of one line; anything else is a finding.
"""

import sys

import atheris

with atheris.instrument_imports(include=["tracekit.readers"]):
    from tracekit.errors import TracekitError
    from tracekit.link import link
    from tracekit.readers import read_stream
    from tracekit.readers.source import from_bytes


def once(data: bytes) -> None:
    """Read one input."""
    try:
        captures = read_stream(from_bytes("fuzz", data), lambda name: len(name) % 2 == 0)
    except TracekitError as error:
        if "\n" in error.message:
            raise AssertionError(error.message) from error
        return
    for capture in captures:
        link(capture)


if __name__ == "__main__":
    atheris.Setup(sys.argv, once)
    atheris.Fuzz()
