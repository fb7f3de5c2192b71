"""The steps of a workload, and the loop that runs them."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.profiler import record_function

from collectors.decoder import Decoder, Group, LayerCache, StepInput, allocate, initialised
from collectors.machine import DTYPES
from tracekit.formats import Progress, RequestSums, Workload, step_annotation
from tracekit.models import ModelConfig

MIXED_STEPS = 4
"""Mixed steps of a repeat: in each, one new prompt runs beside the batch's decode tokens."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step, ready to run.

    Attributes:
        annotation: Text of its range in the trace.
        tokens: Scheduled tokens, [tokens]; a decode step after the first takes what the one before chose.
        inputs: How they belong to requests.
    """

    annotation: str
    tokens: Tensor
    inputs: StepInput


@dataclass(frozen=True, slots=True)
class Timed:
    """One phase of one repeat.

    Attributes:
        phase: prefill, decode or mixed.
        repeat: From 0.
        seconds: From its first launch until the device is done.
        steps: Steps in it.
        tokens: Scheduled tokens in it.
    """

    phase: str
    repeat: int
    seconds: float
    steps: int
    tokens: int


class Runner:
    """A model with its caches, and the same seeded steps every time.

    Args:
        config: The model as it runs.
        workload: What to run.
        device: Where.
    """

    def __init__(self, config: ModelConfig, workload: Workload, device: torch.device) -> None:
        self.workload = workload
        self.device = device
        generator = torch.Generator(device).manual_seed(workload.seed)
        self.model: Decoder = initialised(
            config,
            attention=workload.attention,
            dtype=DTYPES[workload.dtype],
            positions=max(workload.prompt_len, workload.kv_len + workload.decode_steps + MIXED_STEPS),
            generator=generator,
        )
        self.plan = {phase: _plan(phase, config, workload, generator) for phase in workload.phases}

    @property
    def warm_up_steps(self) -> int:
        """Steps that the warm-up runs."""
        return sum(len(steps[: self.workload.warmup]) for steps in self.plan.values())

    @property
    def steps_of_a_pass(self) -> int:
        """Steps that one pass runs."""
        return self.workload.repeats * sum(map(len, self.plan.values()))

    @torch.inference_mode()
    def warm_up(self, progress: Progress) -> None:
        """Run some steps of each phase, so that nothing is made or loaded while times are taken."""
        for steps in self.plan.values():
            for step in steps[: self.workload.warmup]:
                self.model(step.tokens, step.inputs)
                progress.advance()
        self._synchronise()

    @torch.inference_mode()
    def run(self, progress: Progress | None = None) -> list[Timed]:
        """One pass: every phase, `repeats` times over; the device is waited for once a phase, not once a step."""
        return [
            self._phase(phase, steps, repeat, progress)
            for repeat in range(self.workload.repeats)
            for phase, steps in self.plan.items()
        ]

    def _phase(self, phase: str, steps: tuple[Step, ...], repeat: int, progress: Progress | None) -> Timed:
        self._synchronise()
        start = time.perf_counter()
        chosen: Tensor | None = None
        for step in steps:
            with record_function(step.annotation):
                follows = phase == "decode" and chosen is not None
                chosen = self.model(chosen if follows else step.tokens, step.inputs)
            if progress is not None:
                progress.advance()
        self._synchronise()
        seconds = time.perf_counter() - start
        return Timed(phase, repeat, seconds, len(steps), sum(step.inputs.tokens for step in steps))

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _plan(
    phase: str, config: ModelConfig, workload: Workload, generator: torch.Generator
) -> tuple[Step, ...]:
    """The steps of one repeat of a phase."""
    dtype = DTYPES[workload.kv_dtype]

    def caches(requests: int, capacity: int) -> tuple[LayerCache, ...]:
        return allocate(config, requests, capacity, dtype, generator)

    batch, prompt = workload.batch, workload.prompt_len
    groups: Iterator[tuple[Group, ...]]
    if phase == "prefill":
        groups = iter([(Group(batch, prompt, 0, caches(batch, prompt)),)])
    elif phase == "decode":
        cache = caches(batch, workload.kv_len + workload.decode_steps)
        groups = ((Group(batch, 1, workload.kv_len + n, cache),) for n in range(workload.decode_steps))
    else:
        context, cache = caches(1, prompt), caches(batch, workload.kv_len + MIXED_STEPS)
        groups = (
            (Group(1, prompt, 0, context), Group(batch, 1, workload.kv_len + n, cache))
            for n in range(MIXED_STEPS)
        )
    return tuple(_step(each, config.vocab, generator) for each in groups)


def _step(groups: tuple[Group, ...], vocab: int, generator: torch.Generator) -> Step:
    inputs = StepInput.of(groups, generator.device)
    tokens = torch.randint(vocab, (inputs.tokens,), device=generator.device, generator=generator)
    return Step(annotation(groups), tokens, inputs)


def annotation(groups: tuple[Group, ...]) -> str:
    """The detailed step annotation of these groups; a single token on a filled cache is generation."""
    lengths = [(group, [(group.queries, group.keys)] * group.requests) for group in groups]
    generating = [pair for group, pairs in lengths for pair in pairs if group.past and group.queries == 1]
    context = [pair for group, pairs in lengths for pair in pairs if not (group.past and group.queries == 1)]
    return step_annotation(RequestSums.of(context), RequestSums.of(generating))
