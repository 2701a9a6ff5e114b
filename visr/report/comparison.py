"""Are the inferred tasks better than the random policy? Differences of mean scores and their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

from visr.report import style
from visr.storage.records.two_phase import Condition, TwoPhase

CLEAR = 2.0
"""A difference of at least so many standard errors is called better or worse."""


@dataclass(frozen=True)
class Difference:
    """The mean score of an inferred task minus that of the random policy."""

    name: str
    mean: float
    standard_error: float | None
    """sqrt(se_1^2 + se_2^2); None if one of them played a single episode."""

    def __str__(self) -> str:
        if self.standard_error is None:
            return f"{self.name} cannot be compared, because one episode has no standard error"
        if self.mean == 0 or abs(self.mean) < CLEAR * self.standard_error:
            size = style.plus_minus(self.mean, self.standard_error)
            return f"{self.name} makes no clear difference ({size} points)"
        size = style.plus_minus(abs(self.mean), self.standard_error)
        return f"{self.name} is {'better' if self.mean > 0 else 'worse'} by {size} points"


def verdict(phase: TwoPhase) -> str:
    """One sentence that compares every inferred task with the random policy."""
    random = phase.untrained
    inferred = [condition for condition in phase.conditions if condition.is_inferred]
    if random is None or not inferred:
        missing = "random policy" if random is None else "inferred task"
        return f"No {missing} was played, so there is no comparison."
    compared = "; ".join(str(_difference(condition, random)) for condition in inferred)
    return f"Compared with the random policy, {compared}."


def _difference(condition: Condition, random: Condition) -> Difference:
    errors = (condition.standard_error, random.standard_error)
    error = None if None in errors else math.hypot(*(e for e in errors if e is not None))
    return Difference(condition.name, condition.mean - random.mean, error)
