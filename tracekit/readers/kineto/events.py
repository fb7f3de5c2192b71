"""One trace event, typed: only the fields that a table needs are decoded, and none into a dict."""

from typing import Any

import msgspec

Number = int | float | str | None
# What decoding raises on bytes that are not JSON, not UTF-8, or nested without end.
DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Args(msgspec.Struct, gc=False):
    """The arguments that tables use; every other one is skipped unread."""

    correlation: Number = None
    device: Number = None
    stream: Number = None
    grid: msgspec.Raw = msgspec.Raw()
    block: msgspec.Raw = msgspec.Raw()
    bytes: Number = None
    label: object = msgspec.field(default=None, name="name")
    graph_node: Number = msgspec.field(default=None, name="graph node id")
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input type")
    strides: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input Strides")
    concrete: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Concrete Inputs")


_NO_ARGS = Args()


class CounterArgs(Args):
    """The arguments of a counter range: every one is a metric."""

    metrics: dict[str, Any] = msgspec.field(default_factory=dict)


class Event(msgspec.Struct, gc=False):
    """A trace event as its JSON object names the fields."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: msgspec.Raw = msgspec.Raw()
    dur: msgspec.Raw = msgspec.Raw()
    args: Args | None = None


class LooseEvent(msgspec.Struct, gc=False):
    """The same with nothing typed, for events that do not fit; `loosely` makes what can be made of it."""

    ph: object = ""
    cat: object = ""
    name: object = ""
    pid: object = ""
    tid: object = ""
    ts: msgspec.Raw = msgspec.Raw()
    dur: msgspec.Raw = msgspec.Raw()
    args: msgspec.Raw = msgspec.Raw()


class _Measured(msgspec.Struct):
    """An event with all of its arguments, for the rare traces that hold counters."""

    cat: object = ""
    args: dict[str, Any] | None = None


COUNTER_RANGE = "cuda_profiler_range"
_MARK = COUNTER_RANGE.encode()
_MEASURED = msgspec.json.Decoder(list[_Measured])
_EVENTS = msgspec.json.Decoder(list[Event])
_EVENT = msgspec.json.Decoder(Event)
_LOOSE = msgspec.json.Decoder(LooseEvent)
_ARGS = msgspec.json.Decoder(Args)


def decode_array(data: bytes | bytearray | memoryview) -> list[Event]:
    """The events of a JSON array.

    Raises:
        msgspec.DecodeError: The array is not JSON, or an event does not fit the types.
    """
    events = _EVENTS.decode(data)
    return events if bytes(data).find(_MARK) < 0 else _with_metrics(events, data)


def _with_metrics(events: list[Event], data: bytes | bytearray | memoryview) -> list[Event]:
    for event, measured in zip(events, _MEASURED.decode(data), strict=True):
        if event.cat == COUNTER_RANGE:
            event.args = CounterArgs(metrics=measured.args or {})
    return events


def decode_one(data: bytes | memoryview) -> Event | None:
    """One event, leniently; None where it is not even JSON."""
    try:
        event = _EVENT.decode(data)
        return event if event.cat != COUNTER_RANGE else _with_metrics([event], b"[" + bytes(data) + b"]")[0]
    except DAMAGE:
        return _decode_loosely(data)


def _decode_loosely(data: bytes | memoryview) -> Event | None:
    try:
        loose = _LOOSE.decode(data)
    except DAMAGE:
        return None
    return Event(
        ph=_text(loose.ph),
        cat=_text(loose.cat),
        name=_text(loose.name),
        pid=_identity(loose.pid),
        tid=_identity(loose.tid),
        ts=loose.ts,
        dur=loose.dur,
        args=_loose_args(loose.args),
    )


def _loose_args(raw: msgspec.Raw) -> Args | None:
    try:
        return _ARGS.decode(raw)
    except DAMAGE:
        return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _identity(value: object) -> int | str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return _text(value)
    return value
