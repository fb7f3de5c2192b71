"""The model of a workload, ready to run: tracekit's own decoder, or Hugging Face's classes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from collectors import compiling, huggingface
from collectors.decoder import StepInput, allocate, initialised
from collectors.machine import DTYPES
from tracekit.formats import Workload
from tracekit.models import ModelConfig

SPARE = 8
"""Positions beyond the longest key length that a workload's own steps reach."""


@dataclass(frozen=True, slots=True)
class Built:
    """A model that runs steps.

    Attributes:
        forward: The tokens of a step, [tokens], and how they belong to requests; gives the next token of each request.
        caches: Requests, capacity and tokens already cached of each; gives what a `Group` carries as its caches.
        prepare: Makes what a step needs before it is timed.
    """

    forward: Callable[[Tensor, StepInput], Tensor]
    caches: Callable[[int, int, int], Any]
    prepare: Callable[[StepInput], None]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where Hugging Face's classes take their configuration from; nothing of it is written into a capture.

    Attributes:
        document: The `config.json` that was given; empty for a preset.
        checkpoint: Folder of a local checkpoint to load; None for random weights.
    """

    document: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        folder = None if self.checkpoint is None else str(self.checkpoint)
        return {"document": dict(self.document), "checkpoint": folder}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Origin":
        """The origin that `to_json` gave."""
        folder = values["checkpoint"]
        return cls(values["document"], None if folder is None else Path(folder))


def build(config: ModelConfig, workload: Workload, origin: Origin, generator: torch.Generator) -> Built:
    """The model of a workload.

    Args:
        config: Its dimensions, truncated and sharded.
        workload: What it is to run.
        origin: Only `--backend transformers` looks at it.
        generator: Source of weights and cache content; its device is that of the model.

    Raises:
        UnsupportedError: transformers is not installed, or does not know the architecture.
        CaptureError: A checkpoint cannot be loaded.
    """
    if workload.backend == "transformers":
        model = huggingface.load(
            config, workload, dict(origin.document), origin.checkpoint, seed=generator.initial_seed()
        ).to(generator.device)
        hosted = huggingface.Hosted(model, DTYPES[workload.dtype], generator)
        return Built(hosted.forward, hosted.caches, hosted.prepare)
    decoder = initialised(
        config,
        attention=workload.attention,
        dtype=DTYPES[workload.dtype],
        positions=max(workload.prompt_len, workload.kv_len + workload.decode_steps) + SPARE,
        generator=generator,
    )
    forward = compiling.compiled(decoder, generator.device) if workload.compile else decoder

    def caches(requests: int, capacity: int, _cached: int) -> Any:
        return allocate(config, requests, capacity, DTYPES[workload.kv_dtype], generator)

    return Built(forward, caches, partial(_prepare, decoder))


def _prepare(decoder: Any, step: StepInput) -> None:
    decoder.prepare(step)
