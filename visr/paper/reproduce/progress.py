"""Progress of a plan: on a terminal a bar for the plan and one for every job, else a line per ended job."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from visr.commands import output
from visr.paper.reproduce.ledger import Ledger, Row
from visr.paper.reproduce.plan import Plan
from visr.paper.reproduce.runner import Attempt, Observer, steps_done

_INTERVAL = 1.0
"""Seconds between readings of the jobs' files."""


@contextlib.contextmanager
def progress(plan: Plan, ledger: Ledger) -> Iterator[Observer]:
    """An observer for the runner that shows which jobs start, run and end."""
    if not sys.stderr.isatty():
        yield _print_ended
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=2) as bars:
        whole = bars.add_task("[bold]plan", total=sum(job.num_steps for job in plan.jobs), note="")
        lines: dict[str, TaskID] = {}
        last_update = 0.0

        def observe(attempts: list[Attempt], ended: Row | None) -> None:
            nonlocal last_update
            if ended is None and time.monotonic() - last_update < _INTERVAL:
                return
            last_update = time.monotonic()
            done = [job for job in plan.jobs if ledger.state(job) == "done"]
            steps = sum(job.num_steps for job in done)
            for id in set(lines) - {attempt.job.id for attempt in attempts}:
                bars.remove_task(lines.pop(id))
            for job in (attempt.job for attempt in attempts):
                completed = steps_done(ledger.directory, job) if job.phase == "train" else 0
                steps += completed
                if job.id not in lines:
                    lines[job.id] = bars.add_task(job.id, total=job.num_steps, note="")
                bars.update(lines[job.id], completed=completed)
            bars.update(whole, completed=steps, note=f"{len(done)} of {len(plan.jobs)} jobs")

        yield observe


def _print_ended(_attempts: list[Attempt], ended: Row | None) -> None:
    if ended is not None:
        output.say(f"{ended.job}: {ended.state} after {ended.seconds:,.0f} s")
