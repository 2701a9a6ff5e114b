"""How good a task's policy will be, from recorded steps alone, without a step of the environment.

Least-squares policy evaluation (LSTD-Q): Q(s, a) = theta_a . f(s) with f(s) = [chi of reaching s, 1] solves

    sum_t x_t (x_t - gamma x'_t)^T theta = sum_t x_t r_t,  x_t = f(s_t) at a_t,  x'_t = f(s_t+1) at pi(s_t+1),

on recorded steps, for the policy of the task, for the random policy, and for the greedy policies of a few
rounds of policy iteration, whose best value stands for the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from visr.agents.base import BehaviourModel
from visr.envs.episodes import EpisodeSteps
from visr.inference.collect import features

Floats = NDArray[np.float64]

_ROUNDS = 8
"""Rounds of policy iteration."""
_RIDGE = 1e-6
"""Relative to the mean second moment of the features."""
_BATCH = 32
"""States under every policy of the library, small enough for the processor's cache."""
_MOST_STEPS = 8_000


@dataclass(frozen=True)
class ValuePrediction:
    """Discounted values on the recorded states."""

    value: float
    """Of the task's policy."""
    random: float
    """Of the random policy."""
    best: float
    """The largest that policy iteration on the same steps found."""

    @property
    def fraction_of_best(self) -> float:
        """(value - random) / (best - random), between 0 and 1."""
        if self.best - self.random <= 1e-9 * max(abs(self.best), abs(self.random), 1e-9):
            return 1.0
        return float(np.clip((self.value - self.random) / (self.best - self.random), 0, 1))


def predict(
    agent: BehaviourModel, w: Floats, steps: EpisodeSteps, reward: Floats, gpi: bool
) -> ValuePrediction:
    """The value of w's policy for the rewards [N] of these steps."""
    if len(reward) > _MOST_STEPS:
        chosen = np.random.default_rng(0).permutation(len(reward))[:_MOST_STEPS]
        kept = [None if x is None else x[np.sort(chosen)] for x in steps]
        steps, reward = EpisodeSteps(*kept), reward[np.sort(chosen)]  # pyright: ignore
    here, after = steps.observation, steps.next_observation
    model = _Model(agent, steps, reward)
    acting = _actions(agent, w, after, gpi)
    count = agent.psi.num_actions
    random = model.evaluate(np.full((len(after), count), 1 / count))
    mine = model.evaluate(np.eye(count)[acting])
    states = np.eye(count)[_actions(agent, w, here, gpi)]
    value = float((model.values_here(mine) * states).sum(axis=1).mean())
    best, most, theta = value, model.largest_value, mine
    for _ in range(_ROUNDS):
        theta = model.evaluate(np.eye(count)[model.values_after(theta).argmax(axis=1)])
        found = float(model.values_here(theta).max(axis=1).mean())
        if found <= most:  # a fit that explodes says nothing
            best = max(best, found)
    return ValuePrediction(value, float(model.values_here(random).mean()), best)


class _Model:
    """The recorded steps as the equations of LSTD-Q."""

    def __init__(self, agent: BehaviourModel, steps: EpisodeSteps, reward: Floats) -> None:
        self._gamma, self._actions = agent.config.gamma, agent.psi.num_actions
        self._here = _states(agent, steps.observation)
        self._after = _states(agent, steps.next_observation)
        ended = np.zeros(len(reward), bool) if steps.terminated is None else steps.terminated
        self._goes_on = self._gamma * (1.0 - ended)[:, None]
        self._taken = [steps.action == action for action in range(self._actions)]
        blocks = [self._here[taken].T @ self._here[taken] for taken in self._taken]
        size = self._here.shape[1]
        self._moments = np.zeros((self._actions * size, self._actions * size))
        for action, block in enumerate(blocks):
            place = slice(action * size, (action + 1) * size)
            self._moments[place, place] = block
        ridge = _RIDGE * np.trace(self._moments) / len(self._moments)
        self._moments[np.diag_indices_from(self._moments)] += ridge
        self._rewards = self._by_action(reward[:, None])[:, 0]
        self.largest_value = 1.05 * float(np.abs(reward).max()) / (1 - self._gamma)

    def evaluate(self, policy: Floats) -> Floats:
        """theta [actions, k] of the policy [N, actions] in the states after each step."""
        following = _at(self._after, policy) * self._goes_on
        matrix = self._moments - self._by_action(following)
        try:
            theta = np.linalg.solve(matrix, self._rewards)
        except np.linalg.LinAlgError:  # the penalty makes that unlikely
            theta = np.linalg.lstsq(matrix, self._rewards, rcond=1e-9)[0]
        return np.asarray(theta, dtype=np.float64).reshape(self._actions, -1)

    def _by_action(self, rows: Floats) -> Floats:
        """sum_t x_t rows_t^T: [N, m] -> [actions * k, m]; x_t is 0 except at its action."""
        return np.concatenate([self._here[taken].T @ rows[taken] for taken in self._taken])

    def values_here(self, theta: Floats) -> Floats:
        """Q in the states before each step, [N, actions]."""
        return self._here @ theta.T

    def values_after(self, theta: Floats) -> Floats:
        """Q in the states after each step, [N, actions]."""
        return self._after @ theta.T


def _states(agent: BehaviourModel, observation: NDArray) -> Floats:
    """f of states, [N, d + 1]."""
    chi = features(agent, observation).astype(np.float64)
    return np.concatenate([chi, np.ones((len(chi), 1))], axis=1)


def _at(state: Floats, policy: Floats) -> Floats:
    """f(s) in the places of the actions, weighted by the policy: [N, actions * k]."""
    return (policy[:, :, None] * state[:, None, :]).reshape(len(state), -1)


@torch.inference_mode()
def _actions(agent: BehaviourModel, w: Floats, observation: NDArray, gpi: bool) -> NDArray:
    """The task's greedy actions, [N]; equal states are asked once."""
    distinct, which = np.unique(observation, axis=0, return_inverse=True)
    task, rng = torch.as_tensor(w, dtype=torch.float32), torch.Generator().manual_seed(0)
    found = []
    for start in range(0, len(distinct), _BATCH):
        batch = torch.as_tensor(distinct[start : start + _BATCH], device=agent.device)
        values = agent.values_of(agent.psi.first_step(batch), task, rng, gpi)
        found.append(values.argmax(dim=-1).cpu().numpy())
    return np.concatenate(found)[which.ravel()]
