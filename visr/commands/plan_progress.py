"""The progress of a plan: a bar for the whole and one for every job; a line a job where nobody looks."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from visr.commands import output
from visr.paper.reproduce.ledger import Ledger, Row
from visr.paper.reproduce.plan import Plan
from visr.paper.reproduce.runner import Attempt, Observer, steps_done

_EVERY = 1.0
"""Seconds between looks at the jobs' own files."""


@contextlib.contextmanager
def progress(plan: Plan, ledger: Ledger) -> Iterator[Observer]:
    """Something to tell of jobs that begin, go on and end."""
    if not sys.stderr.isatty():
        yield _say_what_ended
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=2) as bars:
        whole = bars.add_task("[bold]plan", total=sum(job.num_steps for job in plan.jobs), note="")
        lines: dict[str, object] = {}
        looked = 0.0

        def observe(attempts: list[Attempt], ended: Row | None) -> None:
            nonlocal looked
            if ended is None and time.monotonic() - looked < _EVERY:
                return
            looked = time.monotonic()
            done = [job for job in plan.jobs if ledger.state(job) == "done"]
            steps = sum(job.num_steps for job in done)
            at_work = {attempt.job.id for attempt in attempts}
            for gone in set(lines) - at_work:
                bars.remove_task(lines.pop(gone))  # pyright: ignore
            for attempt in attempts:
                job = attempt.job
                come = steps_done(ledger.directory, job) if job.phase == "train" else 0
                steps += come
                if job.id not in lines:
                    lines[job.id] = bars.add_task(job.id, total=job.num_steps, note="")
                bars.update(lines[job.id], completed=come)  # pyright: ignore
            bars.update(whole, completed=steps, note=f"{len(done)} of {len(plan.jobs)} jobs")

        yield observe


def _say_what_ended(_attempts: list[Attempt], ended: Row | None) -> None:
    if ended is not None:
        output.say(f"{ended.job}: {ended.state} after {ended.seconds:,.0f} s")
