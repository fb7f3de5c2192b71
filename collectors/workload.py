"""The steps of a workload, and the loop that runs them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.profiler import record_function

from collectors import graphs
from collectors.building import Built, Origin, build
from collectors.compiling import compile_note, graphs_made
from collectors.decoder import Group, StepInput
from tracekit.formats import Progress, RequestSums, Workload, step_annotation
from tracekit.models import ModelConfig

MIXED_STEPS = 4
"""Mixed steps of a repeat: in each, one new prompt runs beside the batch's decode tokens."""
GRAPHED = "decode"
"""The phase whose steps can be replayed: a prompt's kernels are long enough to hide the host's work."""


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
        origin: Where a model of Hugging Face's classes comes from.
    """

    def __init__(
        self, config: ModelConfig, workload: Workload, device: torch.device, origin: Origin | None = None
    ) -> None:
        self.workload = workload
        self.device = device
        generator = torch.Generator(device).manual_seed(workload.seed)
        self.model: Built = build(config, workload, origin or Origin(), generator)
        self.plan = {
            phase: _plan(phase, config.vocab, workload, self.model, generator) for phase in workload.phases
        }
        for steps in self.plan.values():
            for step in steps:
                self.model.prepare(step.inputs)
        self.replays: tuple[graphs.Replayed, ...] = ()
        self.compiled = 0

    @property
    def warm_up_steps(self) -> int:
        """Steps that the warm-up runs, and those that it captures."""
        captured = len(self.plan.get(GRAPHED, ())) if self.workload.cuda_graphs else 0
        return captured + sum(map(len, map(self._warming, self.plan.values())))

    @property
    def steps_of_a_pass(self) -> int:
        """Steps that one pass runs."""
        return self.workload.repeats * sum(map(len, self.plan.values()))

    @property
    def notes(self) -> list[str]:
        """What a reader must know of how the steps were run; known after the warm-up."""
        found = [compile_note(self.compiled)] if self.workload.compile else []
        if self.replays:
            found.append(
                f"{len(self.replays)} decode steps replay a CUDA graph each; other phases run eagerly, and the donor pass "
                "runs the same decode steps eagerly, so that the kernels' work is known"
            )
        return found

    def _warming(self, steps: tuple["Step", ...]) -> tuple["Step", ...]:
        # A step that was not compiled in the warm-up would be compiled while times are taken.
        return steps if self.workload.compile else steps[: self.workload.warmup]

    @torch.inference_mode()
    def warm_up(self, progress: Progress) -> None:
        """Run some steps of each phase, so that nothing is made or loaded while times are taken.

        Raises:
            UnsupportedError: A step cannot be captured as a graph.
        """
        for phase, steps in self.plan.items():
            chosen: Tensor | None = None
            for step in self._warming(steps):
                chosen = self.forward(phase, step, chosen)
                progress.advance()
        if self.workload.cuda_graphs and GRAPHED in self.plan:
            steps_of = [(step.tokens, step.inputs) for step in self.plan[GRAPHED]]
            self.replays = graphs.capture(self.model.forward, steps_of, progress.advance)
        self.compiled = graphs_made() if self.workload.compile else 0
        self._synchronise()

    def forward(self, phase: str, step: "Step", chosen: Tensor | None) -> Tensor:
        """One step, eagerly; a decode step after the first takes what the one before chose."""
        follows = phase == "decode" and chosen is not None
        return self.model.forward(chosen if follows else step.tokens, step.inputs)  # type: ignore[arg-type]  # not None where it follows

    @torch.inference_mode()
    def run(
        self,
        progress: Progress | None = None,
        *,
        phases: tuple[str, ...] | None = None,
        repeats: int | None = None,
        eager: bool = False,
    ) -> list[Timed]:
        """One pass: every phase, `repeats` times over; the device is waited for once a phase, not once a step.

        Args:
            progress: Told of each step.
            phases: Those to run; all by default.
            repeats: How often; by default as the workload says.
            eager: Run captured steps eagerly too.
        """
        return [
            self._phase(phase, repeat, progress, eager=eager)
            for repeat in range(repeats or self.workload.repeats)
            for phase in phases or tuple(self.plan)
        ]

    def _phase(self, phase: str, repeat: int, progress: Progress | None, *, eager: bool) -> Timed:
        steps = self.plan[phase]
        runs = self._replaying() if phase == GRAPHED and self.replays and not eager else self._running(phase)
        self._synchronise()
        start = time.perf_counter()
        for step, run in zip(steps, runs, strict=True):
            with record_function(step.annotation):
                run()
            if progress is not None:
                progress.advance()
        self._synchronise()
        seconds = time.perf_counter() - start
        return Timed(phase, repeat, seconds, len(steps), sum(step.inputs.tokens for step in steps))

    def _replaying(self) -> Iterator[Callable[[], Tensor]]:
        return iter([replayed.run for replayed in self.replays])

    def _running(self, phase: str) -> Iterator[Callable[[], Tensor]]:
        """The steps of a phase as calls, each behind the one before."""
        last: list[Tensor | None] = [None]

        def run(step: Step) -> Tensor:
            last[0] = chosen = self.forward(phase, step, last[0])
            return chosen

        return (partial(run, step) for step in self.plan[phase])

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _plan(
    phase: str, vocab: int, workload: Workload, model: Built, generator: torch.Generator
) -> tuple[Step, ...]:
    """The steps of one repeat of a phase."""
    batch, prompt, depth = workload.batch, workload.prompt_len, workload.kv_len
    groups: Iterator[tuple[Group, ...]]
    if phase == "prefill":
        groups = iter([(Group(batch, prompt, 0, model.caches(batch, prompt, 0)),)])
    elif phase == "decode":
        cache: Any = model.caches(batch, depth + workload.decode_steps, depth)
        groups = ((Group(batch, 1, depth + n, cache),) for n in range(workload.decode_steps))
    else:
        context, cache = model.caches(1, prompt, 0), model.caches(batch, depth + MIXED_STEPS, depth)
        groups = (
            (Group(1, prompt, 0, context), Group(batch, 1, depth + n, cache)) for n in range(MIXED_STEPS)
        )
    return tuple(_step(each, vocab, generator) for each in groups)


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
