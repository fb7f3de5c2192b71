"""CUDA graphs of decode steps: captured once, each at its own key length, and replayed.

An engine replays one graph for many lengths, because its kernels read the lengths from device memory. The decoder's
lengths are dimensions of its tensors, so that each decode step has a graph of its own; what a replay launches is
what the step launches eagerly, without the host's work between the kernels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from collectors.decoder import StepInput
from tracekit.errors import UnsupportedError

_WARM = 3
"""Eager runs before a capture, as PyTorch's notes on CUDA graphs ask for: libraries allocate at first use."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A captured step.

    Attributes:
        graph: The graph.
        chosen: Where a replay leaves the next token of each request.
    """

    graph: Any
    chosen: Tensor

    def run(self) -> Tensor:
        """Replay it."""
        self.graph.replay()
        return self.chosen


def check_graphs(device: torch.device, *, experts: bool, decodes: bool) -> None:
    """Refuse what cannot be captured, before any work.

    Args:
        device: Where it is to run.
        experts: Whether the model has experts.
        decodes: Whether decode is among the phases.

    Raises:
        UnsupportedError: The device is no GPU, the host takes part in each step, or no step is a decode step.
    """
    if device.type != "cuda":
        raise UnsupportedError(
            "--cuda-graphs needs a CUDA device: a CPU has no graphs to replay",
            hint="leave it out, or run on a machine with a GPU",
        )
    if not decodes:
        raise UnsupportedError(
            "--cuda-graphs replays decode steps, and --phase has none", hint="add decode to --phase"
        )
    if experts:
        raise UnsupportedError(
            "--cuda-graphs cannot capture a mixture of experts here: the host waits for each layer's token counts",
            hint="choose a dense model, or collect from an engine with --engine",
        )


def capture(
    forward: Callable[[Tensor, StepInput], Tensor],
    steps: Sequence[tuple[Tensor, StepInput]],
    on_step: Callable[[], None],
    cuda: Any = torch.cuda,
) -> tuple[Replayed, ...]:
    """Capture steps that follow each other: each but the first takes the tokens that the one before chose.

    Args:
        forward: The model.
        steps: Tokens and inputs of each; the tokens of the first are read at every replay.
        on_step: Called after each capture.
        cuda: torch.cuda, or what stands in for it.

    Raises:
        UnsupportedError: A step does something that no graph can hold.
    """
    captured: list[Replayed] = []
    pool: Any = None
    tokens: Tensor | None = None
    for own, inputs in steps:
        given = own if tokens is None else tokens
        _warm(forward, given, inputs, cuda)
        graph = cuda.CUDAGraph()
        try:
            with cuda.graph(graph, pool=pool):
                chosen = forward(given, inputs)
        except RuntimeError as error:
            # Only what CUDA refuses inside a capture; an exhausted memory has its own message.
            if isinstance(error, torch.OutOfMemoryError):
                raise
            reason = (
                "a decode step cannot be captured as a CUDA graph: " + str(error).partition("\n")[0][:160]
            )
            raise UnsupportedError(reason, hint="collect without --cuda-graphs") from error
        # A capture computes nothing: the step after this one reads tokens that a replay has to leave first.
        graph.replay()
        # One pool for all: only one of them runs at a time.
        pool = graph.pool() if pool is None else pool
        tokens = chosen
        captured.append(Replayed(graph, chosen))
        on_step()
    return tuple(captured)


def _warm(
    forward: Callable[[Tensor, StepInput], Tensor], tokens: Tensor, inputs: StepInput, cuda: Any
) -> None:
    """Run a step eagerly on a stream of its own."""
    stream = cuda.Stream()
    stream.wait_stream(cuda.current_stream())
    with cuda.stream(stream):
        for _ in range(_WARM):
            forward(tokens, inputs)
    cuda.current_stream().wait_stream(stream)
