"""The entry point of `tracekit collect`: a request in, capture folders out. It prints nothing."""

from dataclasses import replace
from pathlib import Path

import torch

from collectors import capture, ceilings, counters
from collectors.choices import Choice, check_request, choose
from collectors.machine import Machine, available_memory, busy_note, choose_device, describe, physical_cores
from collectors.memory import check, estimate
from collectors.sweep import Outcome, folder_name, is_done, points, prepare, write_index
from tracekit.errors import TracekitError
from tracekit.formats import CollectRequest, MeasuredCeilings, Progress


def collect(
    request: CollectRequest, progress: Progress, effort: ceilings.Effort | None = None
) -> list[Outcome]:
    """Collect what is asked for: one capture in the output folder, or a folder each for a sweep.

    Args:
        request: What to run.
        progress: Told how far it is.
        effort: How much ceiling measurement; by default a few seconds of it.

    Returns:
        What became of each capture, in order. In a sweep a capture that fails does not stop the others.

    Raises:
        UnsupportedError: The request, the device or the model is not one that can run, or does not fit.
        CaptureError: The folder cannot be written.
    """
    check_request(request)
    device = choose_device(request.device)
    if device.type == "cpu":
        torch.set_num_threads(request.threads or physical_cores())
    counting = None if request.counters is None else counters.prepare(request.counters, device)
    prepare(request.output)
    busy = busy_note()
    machine = describe(device)
    effort = effort or ceilings.effort_for(machine)
    collector = _Collector(request, device, machine, progress, effort, counting)
    choices = [choose(request, point, device, machine) for point in points(request)]
    for choice in choices:
        choice.notes.extend([busy] if busy else [])
    return [collector.single(choices[0])] if len(choices) == 1 else collector.sweep(choices)


def commands(request: CollectRequest) -> list[str]:
    """The lines that profile the first workload of a request by hand, with ncu and with nsys.

    Raises:
        UnsupportedError: The request, the device or the model is not one that can run.
    """
    check_request(request)
    device = choose_device(request.device)
    machine = describe(device)
    choice = choose(request, points(request)[0], device, machine)
    capability = machine.capability if device.type == "cuda" else None
    workload = replace(choice.workload, device="cuda")
    return counters.commands(request.counters or "lite", choice.config, workload, capability, choice.origin)


class _Collector:
    """Captures on one device."""

    def __init__(
        self,
        request: CollectRequest,
        device: torch.device,
        machine: Machine,
        progress: Progress,
        effort: ceilings.Effort,
        counting: counters.Counting | None = None,
    ) -> None:
        self.request = request
        self.device = device
        self.machine = machine
        self.progress = progress
        self.effort = effort
        self.counting = counting

    def single(self, choice: Choice) -> Outcome:
        """One capture, its ceilings measured before and after it."""
        self._fits(choice)
        before = self._measure([choice])
        return self._capture(choice, self.request.output, before, again=True)

    def sweep(self, choices: list[Choice]) -> list[Outcome]:
        """A capture each; those that an earlier run finished are kept, and ceilings are measured once."""
        outcomes: list[Outcome] = []
        measured: MeasuredCeilings | None = None
        for choice in choices:
            folder = self.request.output / folder_name(choice.workload)
            found = is_done(folder, choice.workload)
            if found is not None:
                outcomes.append(Outcome(folder, found, resumed=True))
                continue
            try:
                self._fits(choice)
                measured = measured or self._measure(choices)
                prepare(folder)
                outcomes.append(self._capture(choice, folder, measured, again=False))
            except TracekitError as error:
                outcomes.append(Outcome(folder, error=error))
            write_index(self.request.output, outcomes)
        write_index(self.request.output, outcomes)
        return outcomes

    def _fits(self, choice: Choice) -> None:
        needed = estimate(choice.config, choice.workload, 2 * self.effort.buffer_bytes)
        check(choice.config, choice.workload, needed, available_memory(self.device))

    def _measure(self, choices: list[Choice]) -> MeasuredCeilings:
        dtypes = sorted({"fp32", *(choice.workload.dtype for choice in choices)})
        most = max(choices, key=lambda choice: choice.workload.batch * choice.workload.prompt_len)
        # A few thousand rows reach the largest rate; more of them would only take memory.
        rows = min(most.workload.batch * most.workload.prompt_len, max(self.effort.sides))
        products = ceilings.products_of(most.config, rows)
        return ceilings.measure(self.device, self.machine, dtypes, products, self.progress, self.effort)

    def _capture(self, choice: Choice, folder: Path, measured: MeasuredCeilings, *, again: bool) -> Outcome:
        config, workload = choice.config, choice.workload
        passed = capture.run(config, workload, self.device, folder, self.progress, choice.origin)
        if again:
            measured = ceilings.best_of(measured, self._measure([choice]))
        measured.write(folder)
        done = capture.manifest(config, workload, self.machine, passed, choice.notes, self.request.layers)
        if self.counting is not None:
            counted = self.counting.collect(config, workload, folder, self.progress, choice.origin)
            done = replace(done, files=(*done.files, *counted.files), notes=(*done.notes, *counted.notes))
        done.write(folder)
        return Outcome(folder, done)
