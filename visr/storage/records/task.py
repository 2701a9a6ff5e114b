"""A task: a unit vector to pursue, where it came from, and how far to trust it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visr.errors import UserError
from visr.storage.files import read_json, write_json

FORMAT = 1
_LARGEST = 1e12  # the largest reward that `visr infer` accepts: its sums stay finite


@dataclass(frozen=True, eq=False)
class Task:
    """What `infer` returns, and what policies and evaluations take."""

    name: str
    """What was asked for, in the user's words."""
    env: str
    w: NDArray[np.float64]
    """[d], unit length: phi(s') . w is the reward, up to scale and offset."""
    method: str
    """How w was found."""
    r_squared: float
    """The share of the reward's variance that phi . w explains; negative is worse than a constant."""
    condition_number: float
    """Of the features' second moments; inf where some direction never occurs."""
    standard_error: NDArray[np.float64]
    """[d], of w, in units of the unit vector."""
    num_steps: int
    """Steps (on the grid: states) the regression saw."""
    num_rewarded: int
    """How many of them had a reward other than zero."""
    reward: NDArray[np.float64] | None = None
    """[S], the true reward over states, where it is known (grid worlds)."""

    def save(self, path: Path) -> None:
        """Write task.json."""
        write_json(path, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; infinities become null."""
        return {
            "format": FORMAT,
            "name": self.name,
            "env": self.env,
            "w": self.w.tolist(),
            "method": self.method,
            "r_squared": self.r_squared,
            "condition_number": _finite_or_none(self.condition_number),
            "standard_error": [_finite_or_none(x) for x in self.standard_error.tolist()],
            "num_steps": self.num_steps,
            "num_rewarded": self.num_rewarded,
            "reward": None if self.reward is None else self.reward.tolist(),
        }

    @classmethod
    def load(cls, path: str | Path) -> Task:
        """Read task.json, trusting nothing in it."""
        content = read_json(Path(path))
        if not isinstance(content, dict):
            raise UserError(f"{path} is not a task (it holds no object); `visr infer` makes one.")
        try:
            if content["format"] != FORMAT:
                raise UserError(
                    f"{path} is a task in format {content['format']!r} and this visr reads "
                    f"{FORMAT}; infer it anew."
                )
            return cls._from_dict(content)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise UserError(f"{path} is not a task ({error}); `visr infer` makes one.") from None

    @classmethod
    def _from_dict(cls, content: dict[str, Any]) -> Task:
        w = _vector(content["w"], "w")
        length = float(np.linalg.norm(w))
        if not math.isclose(length, 1, rel_tol=1e-3):
            raise ValueError("w does not have length 1")
        error = [_or_infinity(x, "standard_error") for x in content["standard_error"]]
        if len(error) != len(w):
            raise ValueError("standard_error does not have one number for every one of w")
        condition, reward = content["condition_number"], content["reward"]
        return cls(
            name=_text(content["name"], "name"),
            env=_text(content["env"], "env"),
            w=w if math.isclose(length, 1, rel_tol=1e-12) else w / length,  # ours return bit by bit
            method=_text(content["method"], "method"),
            r_squared=_number(content["r_squared"], "r_squared"),
            condition_number=_or_infinity(condition, "condition_number"),
            standard_error=np.asarray(error, dtype=np.float64),
            num_steps=_count(content["num_steps"], "num_steps"),
            num_rewarded=_count(content["num_rewarded"], "num_rewarded"),
            reward=None if reward is None else _vector(reward, "reward"),
        )


def direction(w: NDArray[np.floating], name: str, env: str, method: str = "chosen by hand") -> Task:
    """A task that no reward told of: a direction of one's own, at unit length."""
    wanted = np.asarray(w, dtype=np.float64)
    with np.errstate(over="ignore"):
        length = float(np.linalg.norm(wanted))
    if wanted.ndim != 1 or not 1e-9 < length < math.inf:
        raise UserError(
            f"The direction {name!r} has no length; give numbers that are not all zero."
        )
    return Task(
        name=name,
        env=env,
        w=wanted if math.isclose(length, 1, rel_tol=1e-12) else wanted / length,
        method=method,
        r_squared=0.0,
        condition_number=math.inf,
        standard_error=np.zeros(len(wanted)),
        num_steps=0,
        num_rewarded=0,
    )


def _vector(values: Any, name: str) -> NDArray[np.float64]:
    if not isinstance(values, list) or any(isinstance(x, bool | str) for x in values):
        raise ValueError(f"{name} is not a list of numbers")
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not len(vector) or not (np.abs(vector) <= _LARGEST).all():
        raise ValueError(f"{name} is not a list of finite numbers of at most {_LARGEST:.0e}")
    return vector


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is not a finite number")
    return float(value)


def _or_infinity(value: Any, name: str) -> float:
    return math.inf if value is None else _number(value, name)


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is not a whole number of at least 0")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is not text")
    return value


def _finite_or_none(x: float) -> float | None:
    return x if math.isfinite(x) else None
