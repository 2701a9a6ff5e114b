"""The progress of long jobs: a bar on a terminal and in notebooks, otherwise lines on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from visr import terminal
from visr.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

    from visr.training.driver import Observer, Status

_WIDE = 80
"""Columns of a terminal that shows the whole bar."""
_LINE_EVERY = 10.0
"""Seconds between two lines of progress where there is no terminal."""
_FIRST_LINE = 2.0
"""Seconds before the first line about a job that is usually short."""
_NOTEBOOK_EVERY = 0.3
"""Seconds between two changes of a notebook's line."""


@contextlib.contextmanager
def training_progress(label: str = "pre-training") -> Iterator[Observer]:
    """Show the progress on stderr: a bar on a terminal, otherwise a line every ten seconds."""
    if not sys.stderr.isatty():
        yield progress_lines(label)
        return
    from rich.console import Console

    with progress_bar(label, Console(stderr=True)) as observe:
        yield observe


def notebook_progress(label: str = "pre-training") -> Observer | None:
    """An observer that shows one changing line in a Jupyter notebook; None anywhere else."""
    if (shown := _notebook_line(f"{label} ...")) is None:
        return None
    last = time.monotonic()

    def observe(status: Status) -> None:
        nonlocal last
        is_over = status.num_steps >= status.total_steps
        if is_over or time.monotonic() - last > _NOTEBOOK_EVERY:
            last = time.monotonic()
            parts = [f"{label}: {status.done:.0%}"]
            parts += [f"{status.num_steps:,} of {status.total_steps:,} steps", *_numbers(status)]
            shown("  ".join(parts))

    return observe


def _notebook_line(text: str) -> Callable[[str], None] | None:
    """Show a line in a Jupyter notebook; the function changes it. None anywhere else."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import Pretty, display

    if (shown := display(Pretty(text), display_id=True)) is None:
        return None
    return lambda changed: shown.update(Pretty(changed))


def counted_steps(
    label: str, total: int, clock: Callable[[], float] = time.monotonic
) -> Callable[[int], None]:
    """A function of the steps so far: it shows the share and the time left, in a notebook or on stderr.

    On stderr the first line comes after two seconds, and one more every ten.
    """
    shown, begun = _notebook_line(f"{label} ..."), clock()
    pause = _FIRST_LINE if shown is None else _NOTEBOOK_EVERY
    following = begun + pause

    def note(num_steps: int) -> None:
        nonlocal following
        now, done = clock(), min(num_steps / total, 1.0)
        if now < following and not (shown and done == 1):
            return
        following = now + (_LINE_EVERY if shown is None else _NOTEBOOK_EVERY)
        text = f"{label}: {done:.0%} of {total:,} steps"
        if 0 < done < 1:
            text += f", {timedelta(seconds=round((now - begun) * (1 - done) / done))} left"
        if shown is None:
            terminal.say(text)
        else:
            shown(text)

    return note


@contextlib.contextmanager
def progress_bar(label: str, console: Console) -> Iterator[Observer]:
    """A bar with speed, time left and metrics; a narrow terminal keeps percentage and time left."""
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column, Table
    from rich.text import Text

    class NumbersColumn(TextColumn):
        """The column that shrinks first; it is cut, not wrapped."""

        def render(self, task: Task) -> Text:
            text = super().render(task)
            text.no_wrap, text.overflow = True, "ellipsis"
            return text

    percentage = TextColumn("{task.percentage:>3.0f}%")
    time_left = TimeRemainingColumn(table_column=Column(no_wrap=True))
    numbers = NumbersColumn("{task.fields[numbers]}", table_column=Column())
    rate = TextColumn("{task.fields[rate]}")
    bar = BarColumn(bar_width=24, table_column=Column(no_wrap=True))
    name = TextColumn(printable(label), style="bold", markup=False)
    wide = (name, bar, percentage, rate, time_left, numbers)
    narrow: tuple[ProgressColumn, ...] = (percentage, time_left, numbers)

    class Bar(Progress):
        """Chooses its columns at every refresh, because a terminal may be resized."""

        def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
            self.columns = wide if console.width >= _WIDE else narrow
            return super().make_tasks_table(tasks)

    with Bar(*wide, console=console, refresh_per_second=4) as progress:
        line = progress.add_task("", total=None, rate="", numbers="")

        def observe(status: Status) -> None:
            speed = progress.tasks[line].speed if status.share is None else None
            shown = [escape(printable(part)) for part in _numbers(status)]
            if status.trouble:
                shown = [f"[bold red]{shown[0]}[/]", *shown[1:]]
            progress.update(
                line,
                total=1.0,
                completed=status.done,
                rate=f"{speed * status.total_steps:,.0f} steps/s" if speed else "",
                numbers="  ".join(shown),
            )

        yield observe


def progress_lines(label: str, clock: Callable[[], float] = time.monotonic) -> Observer:
    """An observer that prints a line on stderr every ten seconds."""
    begun: list[tuple[float, Status]] = []
    last = clock()

    def observe(status: Status) -> None:
        nonlocal last
        now = clock()
        if not begun:
            begun.append((now, status))
        if now - last < _LINE_EVERY:
            return
        last, (start, first) = now, begun[0]
        shown = [
            f"{label}: {status.done:.0%}" + ("" if status.share is None else " of the updates")
        ]
        shown.append(f"{status.num_steps:,} of {status.total_steps:,} steps")
        if status.share is None and status.num_steps > first.num_steps:
            shown.append(f"{(status.num_steps - first.num_steps) / (now - start):,.0f} steps/s")
        if first.done < status.done < 1:
            seconds = (1 - status.done) * (now - start) / (status.done - first.done)
            shown.append(f"{timedelta(seconds=round(seconds))} left")
        terminal.say(", ".join([*shown, *_numbers(status)]))

    return observe


def _numbers(status: Status) -> list[str]:
    shown = [status.trouble] if status.trouble else []
    if status.note:
        shown.append(status.note)
    if "intrinsic_reward" in status.metrics:
        shown.append(f"phi.w {status.metrics['intrinsic_reward']:.3f}")
    for family in ("span", "boxes", "goals"):
        if family in status.evaluation:
            shown.append(f"{family} {status.evaluation[family]:.2f}")
    if "mean_return" in status.evaluation:
        shown.append(f"return {status.evaluation['mean_return']:.1f}")
    if stats := status.stats:
        shown.append(f"actors {stats['actors']:.0f}, queue {stats['queue']:.0f}")
        shown.append(f"stale {stats['staleness']:.1f} (at most {stats['max_staleness']:.0f})")
        shown.append(
            f"waiting: actors {stats['actors_waiting']:.0%}, learner {stats['learner_waiting']:.0%}"
        )
    return shown
