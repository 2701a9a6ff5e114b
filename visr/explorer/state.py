"""What the explorer has on show: a run as of some age, the wishes granted for it, its atlas."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from visr import api, envs
from visr.api import Run
from visr.errors import UserError
from visr.explorer import atlas, painting
from visr.explorer.atlas import Atlas
from visr.explorer.task_requests import Wishes
from visr.storage.records import finetuning

_MOST_SHOWS = 8


class Explored:
    """One run on show; whatever changes here changes under a lock."""

    def __init__(self, path: str | Path, device: str = "auto") -> None:
        self._path, self._device = path, device
        self.run = api.load(path, device=device)
        self.wishes = Wishes(self.run)
        self.computing = threading.Lock()
        """Held by whatever takes long; who finds it held is told so instead of queueing."""
        self._shows, self._lock = 0, threading.Lock()
        self._atlas: Atlas | None = None
        self._wanted, self._error = 0, None
        self._drawing: threading.Thread | None = None
        self._facts = _facts(self.run)

    @contextlib.contextmanager
    def seat(self) -> Iterator[None]:
        """A place in front of the stage; there are only so many."""
        with self._lock:
            if self._shows >= _MOST_SHOWS:
                raise UserError(
                    f"{_MOST_SHOWS} pages are watching already; close one of them first."
                )
            self._shows += 1
        try:
            yield
        finally:
            with self._lock:
                self._shows -= 1

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Long work, one at a time."""
        if not self.computing.acquire(blocking=False):
            raise UserError("Something else is being computed; try again when it is done.")
        try:
            yield
        finally:
            self.computing.release()

    def reload(self) -> None:
        """The newest weights, if they are newer than ours; what was granted for the old ones is forgotten."""
        newest = api.load(self._path, device=self._device)
        if newest.num_steps != self.run.num_steps:
            facts = _facts(newest)
            with self._lock:
                self.run, self.wishes, self._facts = newest, Wishes(newest), facts
                self._atlas, self._wanted = None, 0

    def start_atlas(self, num_skills: int, seed: int) -> None:
        """Begin to make the atlas in a thread of its own; one at a time."""
        with self._lock:
            if self._drawing is not None and self._drawing.is_alive():
                raise UserError("An atlas is being made already; wait until it is done.")
            self._atlas, self._wanted, self._error = Atlas(), num_skills, None
            work = (self.run, num_skills, seed)
            self._drawing = threading.Thread(target=self._draw_atlas, args=work, daemon=True)
            self._drawing.start()

    def _draw_atlas(self, run: Run, num_skills: int, seed: int) -> None:
        try:
            for growing in atlas.draw(run, num_skills, seed):
                if run is not self.run:  # newer weights came in: what was seen so far is not theirs
                    self._atlas, self._wanted = None, 0
                    return
                self._atlas = growing
        except Exception as error:  # other people's environments fail in ways of their own
            self._atlas, self._wanted = None, 0
            self._error = f"The atlas could not be made: {' '.join(str(error).split())}"

    def atlas_so_far(self, first: int) -> dict[str, Any]:
        """The skills that are ready from `first` on, and how many there will be."""
        drawn, is_drawing = self._atlas, self._drawing is not None and self._drawing.is_alive()
        content = {"wanted": self._wanted, "is_drawing": is_drawing, "error": self._error}
        if drawn is None:
            return {**content, "skills": []}
        # when the last skill is in, all are judged: those that the client has must be sent again
        return {**content, **atlas.to_dict(drawn, self.run, first if is_drawing else 0)}

    def finished_atlas(self) -> tuple[Atlas, Run]:
        """The atlas, if it is complete."""
        is_drawing = self._drawing is not None and self._drawing.is_alive()
        if self._atlas is None or is_drawing or not self._atlas.skills:
            raise UserError("There is no atlas yet; make one first.")
        return self._atlas, self.run

    def facts(self) -> dict[str, Any]:
        """What does not change while the weights stay, and what training adds meanwhile."""
        return {**self._facts, **self.progress(), "saved": self.wishes.saved_names()}

    def progress(self) -> dict[str, Any]:
        """How far training is, and how fresh the files are."""
        directory = self.run.directory
        files = (directory.metrics, directory.evaluation, directory.online, directory.timing)
        stamps = [file.stat().st_mtime_ns for file in files if file.exists()]
        checkpoints = directory.checkpoints()
        newest = int(checkpoints[-1].stem) if checkpoints else self.run.num_steps
        tuning = finetuning.settings(directory)
        total = (tuning or self.run.config.training).num_steps
        return {
            "num_steps": self.run.num_steps,
            "newest_steps": newest,
            "total_steps": total,
            "is_finished": newest >= total,
            "is_training": newest < total and directory.is_in_use,
            "version": str(max(stamps, default=0)),
        }


def _facts(run: Run) -> dict[str, Any]:
    config, world, codec = run.config, run.world, envs.space_codec(run.config)
    content: dict[str, Any] = {
        "env": config.env,
        "path": str(run.path),
        "name": run.path.resolve().name,
        "num_features": config.agent.num_features,
        "actions": codec.action_names,
        "fields": codec.field_names,
        "gpi": config.agent.gpi,
        "epsilon": config.agent.epsilon,
        "grid": None,
    }
    if world is not None and painting.can_be_painted(run):
        content["fields"] = ["row", "col", "height", "width"]
        content["grid"] = {
            "height": world.height,
            "width": world.width,
            "free": world.free.tolist(),
            "phi": painting.features(run),
        }
    return content
