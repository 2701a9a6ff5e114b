"""Rewards of both states of a step, for agents whose features are of states.

If r_t = u . chi(s_t) + v . chi(s_t+1), then

    sum_t gamma^t r_t = u . chi(s_0) + sum_t gamma^t (gamma u + v) . chi(s_t+1),

except for the last state of an episode, which no step leaves. So the task is w = gamma u + v.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from visr.inference.steps import Floats, RewardedSteps

_LEAST = 1e-3
"""Length of w beside u and v: a smaller one means that the reward sums to a constant along any path."""


def joined(steps: RewardedSteps) -> RewardedSteps:
    """The steps with [chi(s), chi(s')] as features, [N, 2 d]."""
    assert steps.left is not None
    features = np.concatenate([steps.left.features, steps.features], axis=1)
    return dataclasses.replace(steps, features=features, left=None)


def task(both: Floats, gamma: float) -> Floats:
    """gamma u + v for [u, v] of unit length: [..., 2 d] -> [..., d], of unit length; 0 if it is tiny."""
    u, v = np.split(both, 2, axis=-1)
    w = gamma * u + v
    length = np.linalg.norm(w, axis=-1, keepdims=True)
    return np.where(length > _LEAST, w / np.maximum(length, _LEAST), 0.0)


def error(both: Floats, standard_error: Floats, gamma: float) -> Floats:
    """The standard error of that w, for independent errors of u and v."""
    u, v = np.split(both, 2)
    of_u, of_v = np.split(standard_error, 2)
    return np.hypot(gamma * of_u, of_v) / max(float(np.linalg.norm(gamma * u + v)), _LEAST)
