"""Exact values on a known, deterministic MDP, for rewards r(s') collected on arrival.

Shapes: transitions [S, A] (the state that follows), reward [S] or [K, S], values like the reward,
a policy as actions [S] or [K, S] (integers) or as probabilities [S, A] or [K, S, A] (floats).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visr.errors import UserError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

GAMMA = 0.95
"""Default discount of exact evaluations, from the authors' notebook."""

_NEGLIGIBLE = 1e-18  # of the largest possible value: below what float64 can add to it
_SAME = 1e-14  # of the largest possible value: above rounding, so policy iteration cannot cycle


def optimal_values(transitions: IntArray, reward: FloatArray, gamma: float) -> FloatArray:
    """V*(s) = max_a r(s') + gamma V*(s'), by policy iteration on all K rewards at once."""
    _check_gamma(gamma)
    tasks = np.atleast_2d(reward)
    same = _SAME * _largest_value(tasks, gamma)
    policy = np.zeros(tasks.shape, dtype=np.int64)
    while True:
        values = _deterministic_values(_arrivals(transitions, policy), tasks, gamma)
        q = _action_values(transitions, tasks, values, gamma)
        better = q.max(axis=-1) > values + same
        if not better.any():
            return values.reshape(np.shape(reward))
        policy = np.where(better, q.argmax(axis=-1), policy)


def greedy(transitions: IntArray, reward: FloatArray, values: FloatArray, gamma: float) -> IntArray:
    """argmax_a r(s') + gamma V(s'); the first of equal actions."""
    return _action_values(transitions, reward, values, gamma).argmax(axis=-1)


def policy_values(
    transitions: IntArray, policy: np.ndarray, reward: FloatArray, gamma: float
) -> FloatArray:
    """V(s) = sum_a pi(a|s) (r(s') + gamma V(s')); one policy with K rewards, or K policies with one."""
    _check_gamma(gamma)
    if np.issubdtype(policy.dtype, np.integer):
        arrivals, tasks = np.broadcast_arrays(_arrivals(transitions, policy), reward)
        values = _deterministic_values(np.atleast_2d(arrivals), np.atleast_2d(tasks), gamma)
        return values.reshape(arrivals.shape)
    return _stochastic_values(transitions, policy, reward, gamma)


def random_values(transitions: IntArray, reward: FloatArray, gamma: float) -> FloatArray:
    """V of the uniformly random policy."""
    uniform = np.full(transitions.shape, 1 / transitions.shape[1])
    return policy_values(transitions, uniform, reward, gamma)


def fraction_of_optimal(
    transitions: IntArray,
    policy: np.ndarray,
    reward: FloatArray,
    start: FloatArray,
    gamma: float,
) -> FloatArray:
    """(V - V_random) / (V_optimal - V_random) with each V = sum_s start(s) V(s); [] or [K]."""
    random, optimal = bounds(transitions, reward, start, gamma)
    value = policy_values(transitions, policy, reward, gamma) @ start
    return np.asarray((value - random) / (optimal - random))


def best_constant(
    transitions: IntArray, reward: FloatArray, start: FloatArray, gamma: float
) -> float:
    """The value of the best policy that repeats one action, averaged over starts; reward [S]."""
    actions = np.arange(transitions.shape[1])[:, None].repeat(len(transitions), axis=1)
    return float((policy_values(transitions, actions, reward, gamma) @ start).max())


def visits(
    transitions: IntArray, policy: IntArray, start: FloatArray, num_steps: int
) -> FloatArray:
    """Expected visits of each state in `num_steps` moves from `start`, which counts as a visit; [S]."""
    arrivals = _arrivals(transitions, policy)
    here = np.asarray(start, dtype=np.float64)
    total = here.copy()
    for _ in range(num_steps):
        here = np.bincount(arrivals, weights=here, minlength=len(here))
        total += here
    return total


def bounds(
    transitions: IntArray, reward: FloatArray, start: FloatArray, gamma: float
) -> tuple[FloatArray, FloatArray]:
    """V_random and V_optimal, each averaged over starts; they must differ."""
    random = random_values(transitions, reward, gamma) @ start
    optimal = optimal_values(transitions, reward, gamma) @ start
    scale = _largest_value(np.atleast_2d(reward), gamma).reshape(np.shape(random))
    if np.any(optimal - random <= 1e-12 * scale):
        raise UserError(
            "The reward is worth as much to a random policy as to the best one, so there is no "
            "fraction of optimal: give a reward that differs between cells that can be reached."
        )
    return random, optimal


def _check_gamma(gamma: float) -> None:
    if not 0 <= gamma < 1:
        raise UserError(f"The discount gamma is {gamma}, but exact values need 0 <= gamma < 1.")


def _largest_value(tasks: FloatArray, gamma: float) -> FloatArray:
    """max |r| / (1 - gamma), which no value exceeds; [K, S] -> [K, 1]."""
    return np.abs(tasks).max(axis=-1, keepdims=True) / (1 - gamma)


def _action_values(
    transitions: IntArray, reward: FloatArray, values: FloatArray, gamma: float
) -> FloatArray:
    """Q(s, a) = r(s') + gamma V(s'); [..., S] -> [..., S, A]."""
    return (reward + gamma * values).take(transitions, axis=-1)


def _arrivals(transitions: IntArray, policy: np.ndarray) -> IntArray:
    """s' of the action the policy takes in each s; [..., S] -> [..., S]."""
    return transitions[np.arange(len(transitions)), policy]


def _deterministic_values(arrivals: IntArray, tasks: FloatArray, gamma: float) -> FloatArray:
    """V(s) = r(s') + gamma V(s') along the only path from s; [K, S], [K, S] -> [K, S].

    By doubling: the value of 2n steps is that of n steps plus gamma^n times that of the next n.
    """
    num_tasks, num_states = tasks.shape
    arrivals = (arrivals + num_states * np.arange(num_tasks)[:, None]).ravel()
    values, discount = tasks.ravel()[arrivals], gamma
    while discount > _NEGLIGIBLE:
        values = values + discount * values[arrivals]
        arrivals = arrivals[arrivals]
        discount *= discount
    return values.reshape(tasks.shape)


def _stochastic_values(
    transitions: IntArray, policy: FloatArray, reward: FloatArray, gamma: float
) -> FloatArray:
    """(I - gamma P) V = P r, where P(s, s') is the policy's transition probability."""
    from scipy import sparse  # imported late: slower to import than to use
    from scipy.sparse.linalg import splu

    if policy.ndim == 3:
        tasks = np.broadcast_to(reward, (len(policy), len(transitions)))
        pairs = zip(policy, tasks, strict=True)
        return np.stack([_stochastic_values(transitions, pi, r, gamma) for pi, r in pairs])
    num_states, num_actions = transitions.shape
    cells = (np.repeat(np.arange(num_states), num_actions), transitions.ravel())
    step = sparse.csc_array((policy.ravel(), cells), shape=(num_states, num_states))
    system = sparse.eye_array(num_states, format="csc") - gamma * step
    return splu(system).solve(step @ reward.T).T
