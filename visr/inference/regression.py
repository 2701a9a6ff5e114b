"""Data -> Task: the rewarded phase, which changes no weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visr.config import InferenceConfig
from visr.ops.regression import RewardSums, fit_task
from visr.storage.records.task import Task


def by_regression(
    phi: NDArray[np.floating],
    reward: NDArray[np.float64],
    config: InferenceConfig,
    *,
    name: str,
    env: str,
) -> Task:
    """Solve r ~ phi . w and keep the direction: phi [N, d], reward [N].

    The scale of w does not change the policy, so it is dropped, as in the authors' notebook.
    """
    sums = RewardSums(phi.shape[1])
    sums.add(phi, reward)
    fit = fit_task(sums, config)
    return Task(
        name=name,
        env=env,
        w=fit.w,
        method=describe(config),
        r_squared=fit.r_squared,
        condition_number=fit.condition_number,
        standard_error=fit.standard_error,
        num_steps=fit.num_steps,
        num_rewarded=fit.num_rewarded,
    )


def describe(config: InferenceConfig) -> str:
    """The method in words."""
    method = f"ridge regression ({config.ridge:g})" if config.ridge else "least squares"
    method = f"whitened {method}" if config.whitened else method
    return f"centred {method}" if config.centred else method
