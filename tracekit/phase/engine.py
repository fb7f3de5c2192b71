"""Which engine wrote a capture: from frames, op namespaces, kernel names and scopes, not from its step texts."""

import re

import pandas as pd

from tracekit.phase.grammar import Rule
from tracekit.tables import Capture


def recognise(capture: Capture, kernels: pd.DataFrame, rules: tuple[Rule, ...]) -> str | None:
    """The engine that left most marks of the strongest sort: frames, ops, kernel names, then scopes.

    SGLang calls kernels of vLLM, so a weaker sort is asked only where a stronger one is silent.
    """
    marks = [rule for rule in rules if rule.kind == "engine"]
    sorts = (
        (capture.frames["name"], {rule.engine: rule.pattern for rule in marks}),
        (capture.ops["name"], _patterns(marks, "ops")),
        (kernels["name"], _patterns(marks, "kernels")),
        (capture.annotations["name"], _scopes(rules)),
    )
    for names, patterns in sorts:
        counts = names.value_counts()
        counts = counts[counts > 0]
        texts = counts.index.astype(str)
        scores = {
            engine: int(counts[[bool(pattern.search(text[:512])) for text in texts]].sum())
            for engine, pattern in patterns.items()
        }
        best = max(scores, key=lambda engine: scores[engine], default=None)
        if best is not None and scores[best]:
            return best
    return None


# What a forward is wrapped in where the recorder is not torch.profiler.
_RANGES = {
    "nsys": "an NVTX range named prefill or decode (torch.cuda.nvtx.range_push), and record with --trace=cuda,nvtx",
    "rocprof": "a roctx range named prefill or decode, and record with --hip-trace --marker-trace",
}


def how_to_record(rules: tuple[Rule, ...], engine: str | None, recorder: str = "kineto") -> str:
    """What to do to have an engine annotate its steps.

    Args:
        rules: The rows of `data/engines`.
        engine: The engine, where it is known.
        recorder: Format of the capture.
    """
    known = {rule.engine: rule.row.text("record", "") for rule in rules if rule.kind == "engine"}
    if recorder in _RANGES and engine != "tensorrt-llm":
        return f"wrap each forward in {_RANGES[recorder]}"
    return (
        known.get(engine)
        or "vLLM >= 0.14 and SGLang >= 0.5.12 annotate every step; elsewhere wrap each forward in record_function"
    )


def _scopes(rules: tuple[Rule, ...]) -> dict[str | None, re.Pattern[str]]:
    return {rule.engine: rule.pattern for rule in rules if rule.kind == "scope"}


def _patterns(marks: list[Rule], field: str) -> dict[str | None, re.Pattern[str]]:
    return {rule.engine: re.compile(rule.row.text(field)) for rule in marks if rule.row.text(field, "")}
