"""Traces of several ranks merged into one file: told apart by the labels that the merger put on process ids.

Merging keeps thread and correlation ids as they were, so that they collide between ranks; joined without
this split, kernels of one rank would find launches of another.
"""

import re

from tracekit.readers.kineto.events import Event

_LABEL = re.compile(r"^\[((?:(?:TP|DP|PP|EP|CP|RANK)\d+[-_]?)+)\]\s*(.*)$", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
SAMPLE = 64
"""A merger labels every event: the first of a batch show whether it did."""


def label_of(event: Event) -> str:
    """The rank label on the event's process id; empty where there is none."""
    found = _LABEL.match(event.pid) if isinstance(event.pid, str) else None
    return found[1].upper() if found else ""


def split(events: list[Event]) -> dict[str, list[Event]]:
    """Events by rank label, in order; one entry with an empty label where no process id has one."""
    if not any(isinstance(event.pid, str) and event.pid.startswith("[") for event in events[:SAMPLE]):
        return {"": events}
    piles: dict[str, list[Event]] = {}
    for event in events:
        piles.setdefault(label_of(event), []).append(event)
    return piles


def in_order(labels: list[str]) -> list[str]:
    """Labels by their numbers, so that the position is the rank."""
    return sorted(labels, key=lambda label: [int(number) for number in _NUMBER.findall(label)])
