"""A progress bar on stderr."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.text import Text

from tracekit.units import digits


class Rate(ProgressColumn):
    """Parts a second, or seconds a part where those take longer."""

    def render(self, task: Task) -> Text:
        """The rate, `-` until two parts are done."""
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("-")
        return Text(f"{digits(speed)}/s" if speed >= 1 else f"{digits(1 / speed)} s each")


class Bar:
    """One bar a task; each stays while the next is drawn below it."""

    def __init__(self) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            Rate(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        # Parts are few and uneven: a rate over the last half minute alone would leave nothing to divide.
        self._bars = RichProgress(*columns, console=Console(stderr=True), speed_estimate_period=600)
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def begin(self, task: str, total: int) -> None:
        """A task of so many parts starts."""
        self._task = self._bars.add_task(task, total=total)

    def advance(self) -> None:
        """One part is done."""
        if self._task is not None:
            self._bars.advance(self._task)

    def note(self, text: str) -> None:
        """Say it above the bars."""
        self._bars.console.print(f"note: {text}", markup=False, highlight=False)
