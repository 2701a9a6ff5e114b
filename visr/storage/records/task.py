"""task.json: a unit vector to pursue, what was asked for, and how far to trust it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from visr import arguments
from visr.config import Bound
from visr.errors import UserError, short_repr
from visr.storage import new_files, schema
from visr.storage.files import read_json, write_json
from visr.storage.records.refinement import Refinement, remove_others
from visr.storage.run_dir import evaluation_of
from visr.storage.summaries import Summary

_LARGEST = 1e12  # the largest reward that `visr infer` accepts: its sums stay finite
_LONGEST = 2_000
_MIXED = "mixed of"
Vector = Annotated[NDArray[np.float64], Bound(-_LARGEST, _LARGEST)]
RewardFunction = Callable[[NDArray, NDArray, NDArray], NDArray]
"""(observations, actions, next observations), each [N, ...] -> rewards [N]"""


@dataclass(frozen=True, eq=False)
class TaskPrompt:
    """What the user gave to describe the task."""

    kind: Literal[
        "env",
        "expression",
        "cells",
        "function",
        "dataset",
        "goal",
        "demonstration",
        "preferences",
        "marks",
    ]
    text: Annotated[str, Bound(0, _LONGEST)] = ""
    """An expression, or the name of what was given."""
    data: dict[str, Vector] = field(default_factory=dict)
    """goal: `observation`, `columns` and `width`; dataset: `fit`, the scale and the offset of phi . w."""
    function: RewardFunction | None = field(default=None, metadata=schema.NOT_STORED)
    """For kind `function`: the function itself, until the process ends."""


@dataclass(frozen=True, eq=False, repr=False)
class Task(Summary):
    """What `infer` returns, and what policies and evaluations take; tasks can be scaled and added.

    >>> both = 0.7 * left + 0.3 * slow
    """

    FORMAT: ClassVar[int] = 1

    name: str = "direction"
    """What was asked for, in the user's words."""
    env: str = ""
    """The environment in which it was inferred; empty: any with as many features."""
    w: Vector = field(default_factory=lambda: np.zeros(0))
    """[d], scaled to unit length: phi(s') . w is the reward, up to scale and offset."""
    method: str = "chosen by hand"
    """How w was found."""
    r_squared: float = 0.0
    """The share of the reward's variance that phi . w explains; negative is worse than a constant."""
    condition_number: Annotated[float, schema.NULL_IS_INF] = math.inf
    """Of the features' second moments; inf where some direction never occurs."""
    standard_error: Annotated[NDArray[np.float64], schema.NULL_IS_INF] = field(
        default_factory=lambda: np.zeros(0)
    )
    """[d], of w, in units of the unit vector; zeros if no reward was regressed."""
    num_steps: schema.Count = 0
    """Steps (on the grid: states) the regression saw."""
    num_rewarded: schema.Count = 0
    """How many of them had a reward other than zero."""
    reward: Vector | None = None
    """[S], the true reward over states, where it is known (grid worlds)."""
    prompt: TaskPrompt | None = None
    """What was asked for; None for directions, and in files of older versions."""
    refinement: Refinement | None = None
    """What `visr refine` adds to psi . w; None for instant policies."""
    length: float = field(default=1.0, metadata=schema.NOT_STORED)
    """The weight of this task in a sum."""
    parts: tuple[tuple[Task, float], ...] = field(default=(), metadata=schema.NOT_STORED)
    """The tasks that this one is an unnamed sum of, each with its weight."""

    def __post_init__(self) -> None:
        arguments.text(self.name, "name")
        object.__setattr__(self, "w", _unit(self.w, self.name))
        if not len(self.standard_error):
            object.__setattr__(self, "standard_error", np.zeros(len(self.w)))

    def __mul__(self, weight: float) -> Task:
        """The same direction with another weight; a negative weight turns it round."""
        if not arguments.is_number(weight):
            return NotImplemented
        if not abs(weight) < 1e300:  # NaN and whole numbers beyond the range of a float, too
            shown = short_repr(weight)
            raise UserError(f"The weight {shown} of `{self.name}` must be a finite number.")
        if (weight > 0 and not self.parts) or weight == 0:
            return replace(self, length=self.length * float(weight), parts=())
        return mix([(part, k * float(weight)) for part, k in self._terms()])

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Task:
        """The same direction with a smaller or larger weight."""
        if not arguments.is_number(divisor):
            return NotImplemented
        if not divisor:
            raise UserError(f"`{self.name}` is divided by 0; divide by another number.")
        return self * (1 / divisor)  # pyright: ignore[reportArgumentType]

    def __neg__(self) -> Task:
        """The opposite direction."""
        return self * -1.0

    def __add__(self, other: Task) -> Task:
        """The weighted sum of both, as `mix` makes it."""
        if not isinstance(other, Task):
            return NotImplemented
        return mix([*self._terms(), *other._terms()])

    def __radd__(self, other: int) -> Task:
        """`sum` starts with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: Task) -> Task:
        """This one and the opposite of the other."""
        return self + (-other) if isinstance(other, Task) else NotImplemented

    def _terms(self) -> Sequence[tuple[Task, float]]:
        """The tasks that this one is a sum of, each with its weight."""
        return self.parts or [(self, self.length)]

    @property
    def is_regressed(self) -> bool:
        """Whether w predicts a reward, so that R^2 and rewarded steps mean something."""
        is_mixed = self.method.startswith(_MIXED)
        return self.num_steps > 0 and not is_mixed and self.counted == "steps"

    @property
    def counted(self) -> str:
        """What `num_steps` counts."""
        kind = "" if self.prompt is None else self.prompt.kind
        return {"demonstration": "states", "preferences": "answers"}.get(kind, "steps")

    def summary(self) -> dict[str, str]:
        """Its name, how it was found, and how well phi . w explains the reward."""
        shown = " ".join(f"{x:+.2f}" for x in self.w[:6]) + (" ..." if len(self.w) > 6 else "")
        found = {"task": self.name, "of": self.env or "any run", "by": self.method}
        if self.is_regressed:
            found |= {"R^2": f"{self.r_squared:.3f}"}
        if self.num_steps:
            found |= {self.counted: f"{self.num_steps:,}"}
        if self.refinement is not None:
            found |= {"refined": f"{self.refinement.num_updates:,} updates"}
        return found | {"w": f"[{shown}]"}

    def save(self, path: str | Path) -> None:
        """Write task.json after its weights, if it was refined; an earlier task's files are removed."""
        path = arguments.path(path, "path")
        stored, refinement = self, self.refinement
        if refinement is not None:
            refinement = refinement.saved_beside(path)
            stored = replace(self, refinement=refinement)
        write_json(path, stored.to_dict())
        new_files.remove(evaluation_of(path))
        remove_others(path, refinement)

    def to_dict(self) -> dict[str, Any]:
        """The content of task.json; infinities become null."""
        content = schema.to_dict(self)
        if self.refinement is None:
            del content["refinement"]
        return content

    @classmethod
    def load(cls, path: str | Path) -> Task:
        """Read and check task.json."""
        path = arguments.path(path, "path")
        content = read_json(path)
        with schema.refusing(f"{path} is not a task", "`visr infer` makes one"):
            task = cls.from_dict(content)
            if task.refinement is None:
                return task
            return replace(task, refinement=task.refinement.loaded_from(Path(path)))

    @classmethod
    def from_dict(cls, content: Any) -> Task:
        """The inverse of `to_dict` for untrusted content; a misfit is a ValueError or a UserError."""
        optional = ("reward", "prompt", "refinement", "length", "parts")
        for required in (f.name for f in dataclasses.fields(cls) if f.name not in optional):
            if isinstance(content, dict) and required not in content:
                raise ValueError(f"{required} is missing")
        if isinstance(content, dict) and not _has_unit_length(content["w"]):
            raise ValueError("w does not have length 1")
        task = schema.read(cls, content)
        if len(task.standard_error) != len(task.w):
            raise ValueError("standard_error does not have one number for every one of w")
        return task

    def require_fit(self, env: str, size: int, num_states: int | None = None) -> None:
        """Refuse a task of another environment, or of another number of features or of states."""
        if self.length == 0:
            raise UserError(f"The task `{self.name}` has weight 0; add another task to it.")
        if self.env not in ("", env):
            raise UserError(
                f"The task `{self.name}` was made in {self.env} and this run is of {env}; "
                "infer it with this run."
            )
        if len(self.w) != size:
            raise UserError(
                f"The task `{self.name}` has {len(self.w)} features and this run has "
                f"{size}; infer it with this run."
            )
        if self.reward is not None and num_states not in (None, len(self.reward)):
            raise UserError(
                f"The task `{self.name}` has a reward over {len(self.reward)} states and this world has "
                f"{num_states}; infer it with this run."
            )


def _is_pair(part: Any) -> bool:
    """Whether it is a task and a number."""
    if not isinstance(part, tuple) or len(part) != 2:
        return False
    return isinstance(part[0], Task) and arguments.is_number(part[1])


@arguments.checked
def mix(parts: Sequence[tuple[Task, float]], name: str | None = None) -> Task:
    """The task whose reward is the weighted sum of the parts': w = sum of weight * w_i, at unit length.

    Each part's w has unit length, so weights say how much of each direction, whatever the rewards were.
    """
    if isinstance(parts, Task):
        parts = [parts]  # pyright: ignore  # refused below
    if isinstance(parts, Sequence) and not parts:
        raise UserError("There is nothing to mix; name at least one task and its weight.")
    if not isinstance(parts, Sequence) or not all(_is_pair(part) for part in parts):
        raise UserError(
            "mix takes pairs: visr.mix([(a, 0.7), (b, 0.3)]), or write 0.7 * a + 0.3 * b."
        )
    first = parts[0][0]
    for task, weight in parts:
        if ({task.env, first.env} - {""} and task.env != first.env) or len(task.w) != len(first.w):
            raise UserError(
                f"`{task.name}` is a task of {task.env} with {len(task.w)} features and `{first.name}` one "
                f"of {first.env} with {len(first.w)}; only tasks of one run can be mixed."
            )
        if not abs(weight) <= 1e6:
            raise UserError(
                f"The weight {short_repr(weight)} of `{task.name}` must be a number of at most 1e6."
            )
    w = np.sum([weight * task.w for task, weight in parts], axis=0)
    length = float(np.linalg.norm(w))
    if length < 1e-9:
        raise UserError("These tasks cancel each other out (w = 0); choose other weights.")
    return Task(
        name=name or _mixed_name(parts),
        env=first.env,
        w=w / length,
        method=f"{_MIXED} {len(parts)} tasks",
        standard_error=_mixed_error(parts, length),
        num_steps=sum(task.num_steps for task, _ in parts),
        num_rewarded=sum(task.num_rewarded for task, _ in parts),
        reward=_mixed_reward(parts),
        prompt=_mixed_prompt(parts),
        length=length,
        parts=() if name else tuple(parts),
    )


def _mixed_name(parts: Sequence[tuple[Task, float]]) -> str:
    """The sum in words: a - b, 0.7 a + 0.3 (x0 < 1)."""
    text = ""
    for task, weight in parts:
        is_plain = " " not in task.name and not task.name.startswith("-")
        factor = "" if f"{abs(weight):g}" == "1" else f"{abs(weight):g} "
        sign = ("- " if text else "-") if weight < 0 else ("+ " if text else "")
        text += (
            (" " if text else "") + sign + factor + (task.name if is_plain else f"({task.name})")
        )
    return text


def _mixed_error(parts: Sequence[tuple[Task, float]], length: float) -> NDArray[np.float64]:
    """As if the parts' errors were independent."""
    with np.errstate(over="ignore"):  # too large for a number is as good as unknown: infinite
        squares = [(weight * task.standard_error) ** 2 for task, weight in parts if weight]
        return np.sqrt(np.sum(squares, axis=0)) / length


def _mixed_reward(parts: Sequence[tuple[Task, float]]) -> NDArray[np.float64] | None:
    rewards = [weight * task.reward for task, weight in parts if task.reward is not None]
    is_known = len(rewards) == len(parts) and len({reward.shape for reward in rewards}) == 1
    return np.sum(rewards, axis=0) if is_known else None


def _mixed_prompt(parts: Sequence[tuple[Task, float]]) -> TaskPrompt | None:
    """The weighted sum of the parts' expressions; None if a part was asked for in another way."""
    prompts = [(task.prompt, weight) for task, weight in parts]
    texts = [f"{k:g} * ({p.text})" for p, k in prompts if p is not None and p.kind == "expression"]
    text = " + ".join(texts)
    if len(texts) != len(parts) or len(text) > _LONGEST:
        return None
    return TaskPrompt("expression", text)


def cosine(a: Task, b: Task) -> float:
    """1: the same task; 0: nothing in common; -1: opposites."""
    if len(a.w) != len(b.w):
        raise UserError(
            f"`{a.name}` has {len(a.w)} features and `{b.name}` has {len(b.w)}; they cannot be compared."
        )
    return float(a.w @ b.w)


def _has_unit_length(w: Any) -> bool:
    """Whether a list of numbers has length 1; whatever is no list of numbers is refused elsewhere."""
    try:
        with np.errstate(over="ignore"):
            length = float(np.linalg.norm(np.asarray(w, dtype=np.float64)))
    except (TypeError, ValueError, OverflowError):
        return True
    return not math.isfinite(length) or math.isclose(length, 1, rel_tol=1e-3)


def _unit(w: Any, name: str) -> NDArray[np.float64]:
    """w at unit length; one that has it already, to float32 precision, keeps its bits."""
    try:
        w = np.asarray(w, dtype=np.float64)
        with np.errstate(over="ignore"):
            length = float(np.linalg.norm(w))
    except (TypeError, ValueError):
        raise UserError(f"The w of the task {name!r} is not a list of numbers.") from None
    if w.ndim != 1 or not 1e-9 < length < math.inf:
        raise UserError(
            f"The direction {name!r} has no length; give numbers that are not all zero."
        )
    return w if math.isclose(length, 1, rel_tol=1e-6) else w / length
