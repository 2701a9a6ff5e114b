"""The one meter: jobs in turns, their rates by two clocks, ratios with their spread, and its own noise."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Job = Callable[[], int]
"""Do some work; return how many units of it were done."""
Say = Callable[[str], None]
Clock = Literal["cpu", "wall"]
"""`cpu`: CPU seconds of the busiest thread or child process, which other programs hardly change. On idle
cores a run takes about that long. `wall`: elapsed seconds, which also contain waiting."""
Seconds = Mapping[str, NDArray[np.float64]]
"""Seconds per unit of a job in every turn: [turns] by each clock."""

LEAST_TURNS = 8
_MANY_TURNS = 24
"""Turns that the time is divided into; slow jobs get fewer."""


@dataclass(frozen=True, eq=False)
class Turns:
    """Seconds per unit of every job, by turn."""

    seconds: Mapping[str, Seconds]

    def __getitem__(self, name: str) -> Seconds:
        return self.seconds[name]

    def sum(self, units: Mapping[str, float]) -> Seconds:
        """Seconds of a unit that takes so many units of several jobs."""
        clocks = ("cpu", "wall")
        return {c: sum(n * self[name][c] for name, n in units.items()) for c in clocks}  # pyright: ignore


def take_turns(jobs: Mapping[str, Job], seconds: float, say: Say | None = None) -> Turns:
    """Run the jobs in turns for about `seconds`, after a warm-up of one call each.

    Every second turn has the opposite order, so that neither an order nor a trend favours a job. Each job
    runs at least once in a turn, and there are at least 8 turns.
    """
    for job in jobs.values():
        job()
    share, end = seconds / _MANY_TURNS / len(jobs), time.perf_counter() + seconds
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    turn, order = 0, list(jobs)
    while turn < LEAST_TURNS or turn % 2 or time.perf_counter() < end:
        for name in order:
            found[name].append(_seconds_per_unit(jobs[name], share))
        order.reverse()
        turn += 1
        if say:
            rates = ", ".join(f"{name} {1 / found[name][-1][1]:,.1f}" for name in jobs)
            say(f"Turn {turn}: {rates} per second.")
    columns = {name: np.array(rows).T for name, rows in found.items()}
    return Turns({name: {"cpu": cpu, "wall": wall} for name, (cpu, wall) in columns.items()})


def _seconds_per_unit(job: Job, least: float) -> tuple[float, float]:
    """CPU and elapsed seconds per unit of a job that is repeated for `least` seconds, at least once."""
    before, start, units = _cpu_clocks(), time.perf_counter(), 0
    while not units or time.perf_counter() - start < least:
        units += job()
    wall, after = time.perf_counter() - start, _cpu_clocks()
    busiest = max(after[clock] - before.get(clock, 0.0) for clock in after)
    return busiest / units, wall / units


def _cpu_clocks() -> dict[int, float]:
    """CPU seconds of every thread and child, and of all ended children; without /proc, of the process."""
    tasks, me = Path("/proc/self/task"), os.getpid()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {0: ended.ru_utime + ended.ru_stime}
    if not tasks.exists():
        return found | {1: time.process_time()}
    threads = [(~int(task.name) << 3) | 6 for task in tasks.iterdir()]  # Linux's clock of a thread
    children = (tasks / str(me) / "children").read_text().split()
    for clock in [*threads, *((~int(pid) << 3) | 2 for pid in children)]:  # ... and of a process
        with contextlib.suppress(OSError):  # it has just ended
            found[clock] = time.clock_gettime(clock)
    return found


def waits_for_a_core() -> dict[str, float]:
    """Seconds that each thread of this process was ready to run and had to wait; without /proc, nothing."""
    found = {}
    for task in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # it has just ended
            found[task.parent.name] = int(task.read_text().split()[1]) / 1e9
    return found


def compared(ours: Seconds, limit: Seconds, clock: Clock, unit: str = "steps") -> dict[str, Any]:
    """Rates of ours and of the limit, their ratio with its spread over turns, and the meter's noise.

    The noise is the ratio of the limit to itself, in neighbouring turns; 1 would be a perfect meter. Other
    programs empty the caches, which slows a loop down more than a product repeated on the same numbers;
    `quickest_ratio` compares the quickest turns of both, which suffered least.
    """
    ratio, wall = limit[clock] / ours[clock], limit["wall"] / ours["wall"]
    itself = limit[clock][::2] / limit[clock][1::2]
    return {
        f"{unit}_per_second": rate(ours, clock),
        f"limit_{unit}_per_second": rate(limit, clock),
        "ratio": float(np.median(ratio)),
        "ratio_quartiles": quartiles(ratio),
        "ratio_range": [float(ratio.min()), float(ratio.max())],
        "quickest_ratio": float(limit[clock].min() / ours[clock].min()),
        "clock": clock,
        "wall_ratio": float(np.median(wall)),
        "noise": float(np.median(itself)),
        "noise_quartiles": quartiles(itself),
        "turns": len(ratio),
    }


def rate(seconds: Seconds, clock: Clock) -> float:
    """The median of units per second."""
    return float(np.median(1 / seconds[clock]))


def quartiles(values: NDArray[np.float64]) -> list[float]:
    """The first and the third."""
    return np.quantile(values, [0.25, 0.75]).tolist()


def peak_memory_mb() -> float:
    """The largest resident memory of this process so far."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
