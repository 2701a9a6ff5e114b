"""Where a run keeps its tasks: from a reward's words to a file that no other task has taken."""

from __future__ import annotations

import itertools
from pathlib import Path

from visr.errors import UserError
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir, evaluation_of, slug


def place(run: RunDir, task: Task, name: str | None = None) -> Path:
    """The name asked for, or one made from the reward that no other reward's task has taken."""
    if name is not None:
        return run.task(slug(name))  # the user chose it, and may choose to replace
    stem = slug(task.name)
    numbered = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    return next(path for path in map(run.task, numbered) if _is_free(path, task))


def keep(task: Task, path: Path) -> Path:
    """Write the task; an evaluation beside it spoke of the task that was here before, and goes."""
    task.save(path)
    evaluation_of(path).unlink(missing_ok=True)
    return path


def find(run: RunDir, task: str) -> Path:
    """The file of a task that is named by its name in the run or by a path."""
    saved = run.task(task)
    if saved.parent == run.tasks and saved.is_file():
        return saved
    if Path(task).is_file():
        return Path(task)
    names = ", ".join(path.stem for path in run.task_files()) or "none yet; see `visr infer`"
    raise UserError(f"There is no task {task!r}: neither a file nor saved in the run ({names}).")


def _is_free(path: Path, task: Task) -> bool:
    """Whether nothing is there, or an earlier task for the same reward."""
    if not path.exists():
        return True
    try:
        return Task.load(path).name == task.name
    except UserError:
        return False
