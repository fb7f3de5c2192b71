"""Where the objects of a JSON array begin and end, by their brackets: for what a decoder refuses whole."""

import re

# A whole text, a bracket, or the quote of a text that the buffer cuts.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]|"', re.DOTALL)


def object_spans(text: bytes | bytearray) -> tuple[list[tuple[int, int]], int, bool]:
    """Spans of the objects inside an array, where what follows them begins, and whether the array ended.

    Args:
        text: The inside of an array, from the start of an object on; may be cut anywhere.
    """
    spans: list[tuple[int, int]] = []
    depth = start = rest = 0
    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark == b'"':
            break
        if mark in {b"{", b"["}:
            start = token.start() if depth == 0 else start
            depth += 1
        elif mark in {b"}", b"]"}:
            depth -= 1
            if depth < 0:
                return spans, token.end(), True
            if depth == 0:
                rest = token.end()
                spans.append((start, rest))
    return spans, rest, False
