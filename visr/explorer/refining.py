"""Refine the latest task in a thread while the page shows the instant policy."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from visr.api import Run
from visr.errors import UserError
from visr.explorer import painting
from visr.explorer.task_requests import RequestedTask, TaskRequests
from visr.finetuning.refine import Limit
from visr.storage.records.task import Task

_SECONDS = 20.0
"""Longest refinement of one task."""


@dataclass(eq=False)
class _Job:
    """One refinement; its thread writes, requests read."""

    requested: RequestedTask
    cancelled: threading.Event = field(default_factory=threading.Event)
    task: Task | None = None
    """The best so far."""
    error: str = ""
    is_running: bool = True


class BackgroundRefinement:
    """At most one refinement at a time; a new one, or a new stroke, cancels it."""

    def __init__(self) -> None:
        self._job: _Job | None = None
        self._thread: threading.Thread | None = None
        """Of the job that was started last; it goes on for up to a slice after being cancelled."""

    def start(self, run: Run, requested: RequestedTask) -> None:
        """Refine a task from now on; not in a run without recorded steps, as recording some takes long."""
        self.cancel()
        self._job = job = _Job(requested)
        if not run.has_recorded_steps:
            job.error, job.is_running = "This run keeps no recorded steps to refine from.", False
            return
        self._thread = threading.Thread(target=_work, args=(run, job), daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Stop after the current slice; its result is not shown."""
        if self._job is not None:
            self._job.cancelled.set()
            self._job = None

    def wait(self) -> None:
        """Until nothing works in the background, whether it was cancelled or not."""
        if self._thread is not None:
            self._thread.join()

    def so_far(self, id: str, run: Run, requests: TaskRequests, gpi: bool) -> dict[str, Any]:
        """The best policy so far of the task with that id, as a stroke is answered."""
        job = self._job
        if job is None or job.requested.id != id:
            return {"is_running": False, "error": "", "refinement": None, "answer": None}
        is_running, task = job.is_running, job.task  # in this order: the last task is seen
        content: dict[str, Any] = {"is_running": is_running, "error": job.error}
        if task is None or task.refinement is None:
            return {**content, "refinement": None, "answer": None}
        found = task.refinement
        numbers = {"num_updates": found.num_updates, "gain": found.gain, "is_done": found.is_done}
        lines = [
            *job.requested.lines,
            f"task = run.refine(task, num_updates={found.num_updates})",
        ]
        refined = requests.keep(RequestedTask(task, lines, id=f"{id}-refined"))
        shown = {"task": refined.to_dict(run), **painting.evaluate(run, task, gpi)}
        return {**content, "refinement": numbers, "answer": shown}


def _work(run: Run, job: _Job) -> None:
    try:
        for task in run.refining(job.requested.task, limit=Limit(seconds=_SECONDS)):
            if job.cancelled.is_set():
                return
            job.task = task
    except UserError as error:
        job.error = str(error)
    except Exception as error:  # recorded steps may be damaged in any way
        job.error = f"The refinement failed: {' '.join(str(error).split())}"
    finally:
        job.is_running = False
