"""tasks/NAME.json: a unit vector to pursue, where it came from, and how far to trust it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from visr.config import Bound
from visr.errors import UserError
from visr.storage import schema
from visr.storage.files import read_json, write_json
from visr.storage.run_dir import RunDir, evaluation_of, slug

_LARGEST = 1e12  # the largest reward that `visr infer` accepts: its sums stay finite
Vector = Annotated[NDArray[np.float64], Bound(-_LARGEST, _LARGEST)]


@dataclass(frozen=True, eq=False)
class Task:
    """What `infer` returns, and what policies and evaluations take."""

    FORMAT: ClassVar[int] = 1

    name: str
    """What was asked for, in the user's words."""
    env: str
    w: Vector
    """[d], unit length: phi(s') . w is the reward, up to scale and offset."""
    method: str
    """How w was found."""
    r_squared: float
    """The share of the reward's variance that phi . w explains; negative is worse than a constant."""
    condition_number: Annotated[float, schema.NULL_IS_INF]
    """Of the features' second moments; inf where some direction never occurs."""
    standard_error: Annotated[NDArray[np.float64], schema.NULL_IS_INF]
    """[d], of w, in units of the unit vector."""
    num_steps: schema.Count
    """Steps (on the grid: states) the regression saw."""
    num_rewarded: schema.Count
    """How many of them had a reward other than zero."""
    reward: Vector | None = None
    """[S], the true reward over states, where it is known (grid worlds)."""

    def save(self, path: Path) -> None:
        """Write task.json; the evaluation of an earlier task beside it is removed."""
        write_json(path, self.to_dict())
        evaluation_of(path).unlink(missing_ok=True)

    def to_dict(self) -> dict[str, Any]:
        """The content of task.json; infinities become null."""
        return schema.to_dict(self)

    @classmethod
    def load(cls, path: str | Path) -> Task:
        """Read task.json, which may be anybody's."""
        content = read_json(Path(path))
        with schema.refusing(f"{path} is not a task", "`visr infer` makes one"):
            task = schema.read(cls, content)
            if not math.isclose(np.linalg.norm(task.w), 1, rel_tol=1e-3):
                raise ValueError("w does not have length 1")
            if len(task.standard_error) != len(task.w):
                raise ValueError("standard_error does not have one number for every one of w")
        return replace(task, w=_unit(task.w))

    def require_fit(self, env: str, size: int) -> None:
        """Refuse a task that was made for another environment or for another number of features."""
        if self.env != env:
            raise UserError(
                f"The task `{self.name}` was made in {self.env} and this run is of {env}; "
                "infer it with this run."
            )
        if len(self.w) != size:
            raise UserError(
                f"The task `{self.name}` has {len(self.w)} features and this run has "
                f"{size}; infer it with this run."
            )


def direction(w: NDArray[np.floating], name: str, env: str, method: str = "chosen by hand") -> Task:
    """The task of a given direction, scaled to unit length; no reward was regressed."""
    w = np.asarray(w, dtype=np.float64)
    with np.errstate(over="ignore"):
        length = float(np.linalg.norm(w))
    if w.ndim != 1 or not 1e-9 < length < math.inf:
        raise UserError(
            f"The direction {name!r} has no length; give numbers that are not all zero."
        )
    return Task(
        name=name,
        env=env,
        w=_unit(w),
        method=method,
        r_squared=0.0,
        condition_number=math.inf,
        standard_error=np.zeros(len(w)),
        num_steps=0,
        num_rewarded=0,
    )


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
    names = ", ".join(path.stem for path in run.task_files()) or "none yet; see `visr infer`"
    raise UserError(f"There is no task {task!r}: neither a file nor saved in the run ({names}).")


def _unit(w: NDArray[np.float64]) -> NDArray[np.float64]:
    """w at unit length; one that has it already keeps its bits."""
    length = float(np.linalg.norm(w))
    return w if math.isclose(length, 1, rel_tol=1e-12) else w / length
