"""What the numbers of an inference mean, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from visr.inference.regression import Validation
    from visr.inference.steps import RewardedSteps

LITTLE = 0.02
"""A fit with a smaller R^2 is not worth following."""
_FEW_EPISODES = 4
_CONSTANT = (
    "The reward is the same at every step, so tasks differ only in how long episodes last: trust "
    "search, which compares returns."
)

_EXPRESSED = (
    "The reward is the same at every step, and a constant feature expresses it exactly: the policy makes "
    "episodes last, or end soon if the reward is negative."
)


def words(
    method: str, validation: Validation, steps: RewardedSteps, is_random_search: bool
) -> list[str]:
    """How far to trust the best method, for somebody who wants a policy."""
    returns = None if steps.tried is None else steps.tried.returns
    if is_random_search and returns is not None and np.ptp(returns) == 0:
        return [
            f"Trust none of them: the {len(returns)} episodes that were tried returned the same, and no fit "
            "explains the reward, so this task is as good as any; give it more steps or episodes."
        ]
    trust = _trust(method, validation, is_random_search)
    if steps.is_constant and steps.prefers_regression and not is_random_search:
        return [_EXPRESSED]
    if steps.is_constant:
        return [_CONSTANT] if validation.expected_return is None else [_CONSTANT, trust]
    return [*_coverage(validation.r_squared, steps), trust]


def _coverage(r_squared: float, steps: RewardedSteps) -> list[str]:
    """How much of the reward the features express, and whether the data suffice to tell."""
    if r_squared >= 0.5:
        words = ["The reward lies largely in the span of the features."]
    elif r_squared >= 0.1:
        words = ["The features carry part of the reward."]
    else:
        words = ["The features carry next to nothing of the reward."]
    num_rewarded, num_features = steps.num_rewarded, steps.features.shape[1]
    if num_rewarded < 10 * num_features:
        words.append(f"Only {num_rewarded} steps had a reward, few for {num_features} features.")
    if steps.num_episodes < _FEW_EPISODES:
        words.append(f"Held-out R^2 is optimistic with so few episodes ({steps.num_episodes}).")
    return words


def _trust(method: str, validation: Validation, is_random_search: bool) -> str:
    if validation.expected_return is not None:
        return (
            f"Trust {method}: held-out episodes that pursued tasks near its w returned most, "
            f"{validation.expected_return:.3g} on average."
        )
    if is_random_search:
        return (
            f"Trust {method}: no fit explains enough of the reward to follow it, and an episode with this "
            "task earned some."
        )
    cosine = validation.bootstrap_cosine
    steady = "steady" if cosine >= 0.9 else "unsteady"
    return (
        f"Trust {method}: it predicts held-out episodes best (R^2 {validation.r_squared:.2f}) and is "
        f"{steady} under resampling (mean cosine {cosine:.2f})."
    )


def best_played(
    means: dict[str, float], errors: dict[str, float | None], before: str
) -> tuple[str, str]:
    """The method with the highest mean return, and why; among equal ones `before`.

    `why` says if its lead is below two standard errors, which a single episode does not have.
    """
    highest = max(means.values())
    lead = highest - means[before]
    if lead == 0:
        return before, f"it returned most, {highest:,.2f}"
    most = max(means, key=lambda name: means[name])
    both = [errors[most], errors[before]]
    if lead > 2 * math.hypot(*(math.inf if error is None else error for error in both)):
        return most, f"it returned most, {highest:,.2f}"
    return most, (
        f"it returned most, {highest:,.2f}, but the episodes do not tell that from {means[before]:,.2f} "
        f"({before}); more --trials may"
    )
