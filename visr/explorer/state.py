"""The explorer's state: the loaded run, its inferred tasks and its atlas."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from visr import api, envs
from visr.api import Run
from visr.errors import UserError, reason_of
from visr.explorer import atlas, painting
from visr.explorer.atlas import Atlas
from visr.explorer.task_requests import RequestedTask, TaskRequests
from visr.explorer.watched_episode import Watched
from visr.finetuning.refine import Limit
from visr.storage.records import finetuning
from visr.storage.records.task import Task
from visr.storage.tables import read_rows

_MAX_SESSIONS = 8
_MAX_POINTS = 600


class ExplorerState:
    """One run and what was computed for it; changes are made under a lock."""

    def __init__(self, path: str | Path, device: str = "auto", env: str | None = None) -> None:
        self._path, self._device, self._env = path, device, env
        self.run = api.load(path, device=device, env=env)
        self.watched: dict[str, Watched] = {}
        """By the id of a live session."""
        self.requests = TaskRequests(self.run, self.watched)
        self.refinement = BackgroundRefinement()
        self._lock, self._computing = threading.Lock(), threading.Lock()
        self._sessions = threading.Semaphore(_MAX_SESSIONS)
        self._atlas: Atlas | None = None
        self._wanted, self._error = 0, None
        self._drawing: threading.Thread | None = None
        self._facts = _facts(self.run)

    def session_slot(self) -> AbstractContextManager[None]:
        """One of a limited number of live sessions."""
        refusal = f"{_MAX_SESSIONS} pages are watching already; close one of them first."
        return _held(self._sessions, refusal)

    def exclusive(self) -> AbstractContextManager[None]:
        """Run a long computation; refuse a second one at the same time."""
        refusal = "Something else is being computed; try again when it is done."
        return _held(self._computing, refusal)

    def reload(self) -> None:
        """Load newer weights, if there are any, and discard the tasks and the atlas of the old ones."""
        newest = api.load(self._path, device=self._device, env=self._env)
        if newest.num_steps != self.run.num_steps:
            self.refinement.cancel()
            facts = _facts(newest)
            with self._lock:
                self.run, self.requests, self._facts = (
                    newest,
                    TaskRequests(newest, self.watched),
                    facts,
                )
                self._atlas, self._wanted = None, 0

    @property
    def _is_drawing(self) -> bool:
        return self._drawing is not None and self._drawing.is_alive()

    def start_atlas(self, num_skills: int, seed: int) -> None:
        """Start to make the atlas in a thread; only one at a time."""
        with self._lock:
            if self._is_drawing:
                raise UserError("An atlas is being made already; wait until it is done.")
            self._atlas, self._wanted, self._error = Atlas(), num_skills, None
            work = (self.run, num_skills, seed)
            self._drawing = threading.Thread(target=self._draw_atlas, args=work, daemon=True)
            self._drawing.start()

    def _draw_atlas(self, run: Run, num_skills: int, seed: int) -> None:
        try:
            for growing in atlas.draw(run, num_skills, seed):
                if run is not self.run:  # newer weights were loaded: this atlas is outdated
                    self._atlas, self._wanted = None, 0
                    return
                self._atlas = growing
        except Exception as error:  # a user's environment may raise anything
            self._atlas, self._wanted = None, 0
            self._error = f"The atlas could not be made: {reason_of(error)}"

    def atlas_so_far(self, first: int) -> dict[str, Any]:
        """The finished skills from `first` on, and the total number."""
        drawn, is_drawing = self._atlas, self._is_drawing
        content = {"wanted": self._wanted, "is_drawing": is_drawing, "error": self._error}
        if drawn is None:
            return {**content, "skills": []}
        # scores are computed after the last skill, so all skills are sent again then
        return {**content, **atlas.to_dict(drawn, first if is_drawing else 0)}

    def finished_atlas(self) -> tuple[Atlas, Run]:
        """The atlas, if it is complete."""
        if self._atlas is None or self._is_drawing or not self._atlas.skills:
            raise UserError("There is no atlas yet; make one first.")
        return self._atlas, self.run

    def facts(self) -> dict[str, Any]:
        """Facts about the run, its progress and its saved tasks."""
        return {**self._facts, **self.progress(), "saved": self.requests.saved_names()}

    def progress(self) -> dict[str, Any]:
        """Progress of training, and a version that changes with the files."""
        directory = self.run.directory
        stamps = [file.stat().st_mtime_ns for file in self._tables().values() if file.exists()]
        checkpoints = directory.checkpoints()
        newest = int(checkpoints[-1].stem) if checkpoints else self.run.num_steps
        total = (finetuning.settings(directory) or self.run.config.training).num_steps
        return {
            "num_steps": self.run.num_steps,
            "newest_steps": newest,
            "total_steps": total,
            "is_finished": newest >= total,
            "is_training": newest < total and directory.is_in_use,
            "version": str(max(stamps, default=0)),
        }

    def curves(self) -> dict[str, dict[str, list[float]]]:
        """The columns of every CSV file, with about 600 points each."""
        found = {}
        for name, file in self._tables().items():
            try:
                rows = read_rows(file)
            except UserError:  # being written or damaged: show the others
                rows = []
            stride = -(-len(rows) // _MAX_POINTS) or 1
            kept = [*rows[:-1:stride], *rows[-1:]]
            found[name] = {k: [row[k] for row in kept] for k in (rows[0] if rows else ())}
        return found

    def _tables(self) -> dict[str, Path]:
        names = ("metrics", "evaluation", "online", "timing")
        return {name: getattr(self.run.directory, name) for name in names}


@contextlib.contextmanager
def _held(lock: threading.Lock | threading.Semaphore, refusal: str) -> Iterator[None]:
    """Hold a lock; where it is taken, refuse instead of waiting."""
    if not lock.acquire(blocking=False):
        raise UserError(refusal)
    try:
        yield
    finally:
        lock.release()


def _facts(run: Run) -> dict[str, Any]:
    config, codec, grid = run.config, envs.space_codec(run.config), None
    if (world := run.world) is not None and painting.is_paintable(run):
        size = {"height": world.height, "width": world.width}
        grid = {**size, "free": world.free.tolist(), "phi": painting.features(run)}
    return {
        "env": config.env,
        "path": str(run.path),
        "name": run.path.resolve().name,
        "num_features": config.agent.num_features,
        "actions": codec.action_names,
        "fields": ["row", "col", "height", "width"] if grid else codec.field_names,
        "gpi": config.agent.gpi,
        "epsilon": config.agent.epsilon,
        "grid": grid,
    }


# ---- refinement of the latest task, in a thread while the page shows the instant policy

_SECONDS = 20.0
"""Longest refinement of one task."""


@dataclass(eq=False)
class _RunningRefinement:
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
        self._job: _RunningRefinement | None = None
        self._thread: threading.Thread | None = None
        """Of the job that was started last; it goes on for up to a slice after being cancelled."""

    def start(self, run: Run, requested: RequestedTask) -> None:
        """Refine a task from now on; not in a run without recorded steps, as recording some takes long."""
        self.cancel()
        self._job = job = _RunningRefinement(requested)
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


def _work(run: Run, job: _RunningRefinement) -> None:
    try:
        for task in run.refining(job.requested.task, limit=Limit(seconds=_SECONDS)):
            if job.cancelled.is_set():
                return
            job.task = task
    except UserError as error:
        job.error = str(error)
    except Exception as error:  # recorded steps may be damaged in any way
        job.error = f"The refinement failed: {reason_of(error)}"
    finally:
        job.is_running = False
