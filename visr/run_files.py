"""The files of a run, without its agent: settings, saved tasks, learning curves."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from visr.envs import dataset_spaces
from visr.errors import UserError, short_repr
from visr.storage.packed_models import PackedModel
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir, slug
from visr.storage.summaries import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_REWARD = re.compile(r"[:<>=]|^env$")
"""What rewards hold and names of tasks do not."""


class SavedTasks(Mapping[str, Task]):
    """The tasks that a run keeps, by name; read when asked for, and written by `tasks["left"] = task`."""

    def __init__(self, run: RunDir) -> None:
        self._run = run

    def __getitem__(self, name: str) -> Task:
        """The task of that name; a KeyError lists the others."""
        files = self._files()
        if (found := name if name in files else slug(str(name))) not in files:
            raise KeyError(f"no task {name!r}; there are {', '.join(self._files()) or 'none yet'}")
        return Task.load(files[found])

    def __setitem__(self, name: str, task: Task) -> None:
        """Write the task under that name, over an earlier one."""
        if not isinstance(task, Task):
            raise UserError(f"{short_repr(task)} is no task; `run.infer` returns one.")
        if not isinstance(name, str) or not name.strip():
            raise UserError(f"name = {name!r} is no name of a task; give a text such as 'left'.")
        task.save(self._run.task(slug(name)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._files())

    def __len__(self) -> int:
        return len(self._files())

    def __repr__(self) -> str:
        """The names."""
        return f"<SavedTasks {', '.join(self) or 'none yet'}>"

    def _files(self) -> dict[str, Path]:
        return {path.stem: path for path in self._run.task_files()}


class RunFiles(Summary):
    """What a run keeps on disk, or a packed model and the directory of its output."""

    def __init__(
        self, run_dir: RunDir, model: PackedModel | None = None, env: str | None = None
    ) -> None:
        self.directory, self.model = run_dir, model
        self.config = run_dir.config() if model is None else model.card.config
        self.has_own_env = self.config.has_environment
        """Whether it was trained in an environment, which its tasks name."""
        if env is not None:
            self.config = dataset_spaces.in_environment(self.config, env)

    @property
    def path(self) -> Path:
        """The directory of the run; for a packed model, the directory of its output."""
        return self.directory.path

    @property
    def tasks(self) -> SavedTasks:
        """The tasks that the run keeps: run.tasks["left"]."""
        return SavedTasks(self.directory)

    @property
    def address(self) -> str:
        """The name for `visr.load` and for the command line."""
        return str(self.path) if self.model is None else self.model.address

    def plot(self) -> Figure:
        """The run's main learning curves as a matplotlib figure."""
        from visr.report import curves, read, style

        data = read.run_data(self.path)
        with style.figure_style():
            has_values = bool(data.evaluation)
            figure = (
                curves.optimal(data.evaluation) if has_values else curves.training(data.metrics)
            )
        figure._repr_png_ = lambda: style.png(figure)  # pyright: ignore  # notebooks show it
        return figure


def new_path(run: RunDir, task: Task) -> Path:
    """A path in the run, named after the reward, that no task of another reward has."""
    stem = slug(task.name)
    numbered = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    return next(path for path in map(run.task, numbered) if _is_free(path, task))


def _is_free(path: Path, task: Task) -> bool:
    """Whether nothing is there, or an earlier task for the same reward."""
    if not path.exists():
        return True
    try:
        return Task.load(path).name == task.name
    except UserError:
        return False


def find_task(run: RunDir, task: str) -> Path:
    """The file of a task that is named by its name in the run or by a path."""
    saved = run.task(task)
    if saved.parent == run.tasks and saved.is_file():
        return saved
    if Path(task).is_file():
        return Path(task)
    if (written := run.task(slug(task))).is_file():  # the name that --name was given
        return written
    saved_names = ", ".join(path.stem for path in run.task_files())
    names = saved_names or "none yet; `visr infer` saves one, in Python run.tasks[NAME] = task"
    way = (
        f"; `visr infer RUN --reward {shlex.quote(task)}` makes one" if _REWARD.search(task) else ""
    )
    raise UserError(
        f"There is no task {task!r}: neither a file nor saved in the run ({names}){way}."
    )
