"""The rewarded phase as its file tells it, and what its scores permit one to say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from visr.errors import UserError, encodable
from visr.storage.files import read_json

FORMAT = 1  # as are the names below: of visr.tasks, which cannot be asked without torch
UNTRAINED = "random policy"
UNADAPTED = "@0"
CLEAR = 2.0
"""Standard errors from which on a difference is worth a word."""
LARGEST = 1e12
"""Of a score that an axis can hold."""
_MOST_CONDITIONS = 24

Told = TypeVar("Told")
Verdict = Literal["better", "worse", "no clear difference", "unknown"]


@dataclass(frozen=True)
class Condition:
    """One way to act, and the raw scores of its episodes."""

    name: str
    mean: float
    standard_error: float | None
    """None where one episode is all there is."""
    human_normalised: float | None
    at_75: bool | None
    at_100: bool | None
    r_squared: float | None
    scores: tuple[float, ...]
    num_steps: tuple[float, ...]
    num_free_steps: int = 0
    """Reward-free steps beyond the run's own that it learnt from."""

    @property
    def is_inferred(self) -> bool:
        """Whether a task was inferred for it; the others are there to compare with."""
        return self.name != UNTRAINED and not self.name.startswith(UNADAPTED)


@dataclass(frozen=True)
class PhaseTwo:
    """A run's phase_two.json."""

    num_steps: int
    """The age of the weights."""
    num_rewarded_steps: int
    num_rewarded_episodes: int
    num_seen: int
    """Steps with a reward other than 0."""
    num_trials: int
    epsilon: float
    clip_rewards: bool
    random_score: float | None
    human_score: float | None
    conditions: tuple[Condition, ...]

    @property
    def untrained(self) -> Condition | None:
        """The random policy, if it was played."""
        return next((c for c in self.conditions if c.name == UNTRAINED), None)


@dataclass(frozen=True)
class Difference:
    """A mean minus the random policy's."""

    condition: Condition
    mean: float
    standard_error: float | None
    """sqrt(se_1^2 + se_2^2): the two were played apart."""

    @property
    def verdict(self) -> Verdict:
        """What can be said of it."""
        if self.standard_error is None:
            return "unknown"
        if self.mean == 0 or abs(self.mean) < CLEAR * self.standard_error:
            return "no clear difference"
        return "better" if self.mean > 0 else "worse"


def differences(phase: PhaseTwo) -> list[Difference]:
    """Every inferred task against the random policy; none where that was not played."""
    random = phase.untrained
    if random is None:
        return []
    return [
        Difference(c, c.mean - random.mean, _together(c.standard_error, random.standard_error))
        for c in phase.conditions
        if c.is_inferred
    ]


def _together(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else math.hypot(one, other)


def read(path: Path, env: str) -> PhaseTwo | None:
    """The file of a run that plays `env`, trusting nothing in it; None if there is none."""
    if not path.exists():
        return None
    return _read(
        path,
        env,
        _phase,
        "is not a rewarded phase of this run",
        "or make it anew with `visr evaluate`",
    )


def read_adapted(path: Path, env: str) -> tuple[Condition, ...]:
    """Other ways than the paper's that the run's rewarded steps were spent in; none without the file."""
    if not path.exists():
        return ()
    return _read(
        path,
        env,
        _conditions,
        "does not tell how this run adapted",
        "and the same `visr reproduce beyond` makes it anew",
    )


def _read(
    path: Path, env: str, content_of: Callable[[dict[str, Any]], Told], complaint: str, way_out: str
) -> Told:
    content = read_json(path)
    try:
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r} and this visr reads {FORMAT}")
        if content["env"] != env:
            raise ValueError(f"it speaks of {content['env']!r} and the run plays {env!r}")
        return content_of(content)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{path} {complaint} ({error}); move it away, {way_out}.") from None


def _conditions(content: dict[str, Any]) -> tuple[Condition, ...]:
    conditions = content["conditions"]
    if not isinstance(conditions, list) or not 1 <= len(conditions) <= _MOST_CONDITIONS:
        raise ValueError(f"conditions is not a list of 1 to {_MOST_CONDITIONS}")
    return tuple(_condition(condition) for condition in conditions)


def _phase(content: dict[str, Any]) -> PhaseTwo:
    return PhaseTwo(
        num_steps=_count(content, "num_steps"),
        num_rewarded_steps=_count(content, "num_rewarded_steps"),
        num_rewarded_episodes=_count(content, "num_rewarded_episodes"),
        num_seen=_count(content, "num_seen"),
        num_trials=_count(content, "num_trials"),
        epsilon=_number(content, "epsilon"),
        clip_rewards=bool(content["clip_rewards"]),
        random_score=_number_or_none(content, "random_score"),
        human_score=_number_or_none(content, "human_score"),
        conditions=_conditions(content),
    )


def _condition(content: dict[str, Any]) -> Condition:
    error = _number_or_none(content, "standard_error")
    if error is not None and error < 0:
        raise ValueError("standard_error is less than 0")
    scores, num_steps = _numbers(content, "scores"), _numbers(content, "num_steps")
    if len(scores) != len(num_steps):
        raise ValueError("scores and num_steps do not have the same length")
    return Condition(
        name=encodable(str(content["name"])),
        mean=_number(content, "mean"),
        standard_error=error,
        human_normalised=_number_or_none(content, "human_normalised"),
        at_75=_truth_or_none(content, "at_75"),
        at_100=_truth_or_none(content, "at_100"),
        r_squared=_number_or_none(content, "r_squared"),
        scores=scores,
        num_steps=num_steps,
        num_free_steps=_count(content, "num_free_steps") if "num_free_steps" in content else 0,
    )


def _number(content: dict[str, Any], name: str) -> float:
    number = float(content[name])
    if not abs(number) <= LARGEST:
        raise ValueError(f"{name} is not a finite number of at most {LARGEST:.0e}")
    return number


def _number_or_none(content: dict[str, Any], name: str) -> float | None:
    return None if content[name] is None else _number(content, name)


def _count(content: dict[str, Any], name: str) -> int:
    number = _number(content, name)
    if number < 0 or number != int(number):
        raise ValueError(f"{name} is not a count")
    return int(number)


def _truth_or_none(content: dict[str, Any], name: str) -> bool | None:
    truth = content[name]
    if truth is not None and not isinstance(truth, bool):
        raise ValueError(f"{name} is neither true nor false")
    return truth


def _numbers(content: dict[str, Any], name: str) -> tuple[float, ...]:
    values = np.asarray(content[name], dtype=np.float64)
    if values.ndim != 1 or not values.size or not (np.abs(values) <= LARGEST).all():
        raise ValueError(f"{name} is not a list of finite numbers of at most {LARGEST:.0e}")
    return tuple(values.tolist())
