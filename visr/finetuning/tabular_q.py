"""Numbered states: recorded steps are counted, and Q is computed by sweeps over all of them."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor, nn

from visr.finetuning.offline_steps import OfflineSteps
from visr.finetuning.policy_value import PolicyValue
from visr.networks.residual_values import ResidualValues

_PRECISION = 1e-5
"""Values are iterated until they change by less than this share of the largest possible one."""


class _StepCounts(NamedTuple):
    """What steps between numbered states say, whatever the reward; a pair is a state and an action."""

    pair: Tensor
    """[N], of every step"""
    seen: Tensor
    """[S * actions], steps with each pair"""
    move_pair: Tensor
    """[moves], the pair of each distinct move"""
    move_next: Tensor
    """[moves], the state that it reaches"""
    probability: Tensor
    """[moves], of reaching it and going on from there"""


@functools.lru_cache(maxsize=4)
def _step_counts(steps: OfflineSteps, num_actions: int) -> _StepCounts:
    """Computed once for many rewards."""
    assert isinstance(steps.space, spaces.Discrete)
    num_states = int(steps.space.n)
    pair = steps.observation[steps.before] * num_actions + steps.action
    seen = torch.bincount(pair, minlength=num_states * num_actions).float()
    moves = pair * num_states + steps.observation[steps.after]
    distinct, which = moves.unique(return_inverse=True)
    weight = (~steps.terminated).float() / seen[pair]
    probability = torch.zeros(len(distinct)).index_add_(0, which, weight)
    return _StepCounts(pair, seen, distinct // num_states, distinct % num_states, probability)


class TableModel:
    """Mean rewards and next states of every state and action that was recorded.

    An action that was never recorded in a state has the value of the smallest reward at every step.
    """

    def __init__(self, steps: OfflineSteps, reward: Tensor, gamma: float, num_actions: int) -> None:
        assert isinstance(steps.space, spaces.Discrete)
        self.gamma, self.num_states, self.num_actions = gamma, int(steps.space.n), num_actions
        counts = _step_counts(steps, num_actions)
        self._pair, self._next = counts.move_pair, counts.move_next
        self.is_known = counts.seen > 0
        sums = torch.zeros(len(counts.seen)).index_add_(0, counts.pair, reward)
        least = float(reward.min()) / (1 - gamma)
        self.reward = torch.where(self.is_known, sums / counts.seen.clamp(min=1), least)
        self._weight = gamma * counts.probability
        self.largest = float(reward.abs().max()) / (1 - gamma)

    def q(self, values: Tensor) -> Tensor:
        """r(s, a) + gamma E[V(s')]: [S] -> [S, actions]"""
        following = self._weight * values[self._next]
        q = self.reward.index_add(0, self._pair, following)
        return q.view(self.num_states, self.num_actions)

    def filled_by(self, other: TableModel) -> TableModel:
        """The same with the other model's moves and rewards where an action was never recorded here."""
        missing, filled = ~self.is_known & other.is_known, copy.copy(self)
        filled.is_known = self.is_known | other.is_known
        filled.reward = torch.where(missing, other.reward, self.reward)
        added = missing[other._pair]
        filled._pair = torch.cat([self._pair, other._pair[added]])
        filled._next = torch.cat([self._next, other._next[added]])
        filled._weight = torch.cat([self._weight, other._weight[added]])
        return filled

    @property
    def num_sweeps(self) -> int:
        """Sweeps after which an error has shrunk to the precision."""
        return math.ceil(math.log(_PRECISION) / math.log(max(self.gamma, 0.1)))


class TableEvaluation:
    """Values of policies on the counted held-out steps; what they lack is taken from `others`."""

    def __init__(
        self,
        steps: OfflineSteps,
        reward: Tensor,
        gamma: float,
        num_actions: int,
        others: TableModel | None = None,
    ) -> None:
        model = TableModel(steps, reward, gamma, num_actions)
        self._model = model if others is None else model.filled_by(others)
        self._state, self._episode = steps.observation[steps.before], steps.episode
        self._states, where = self._state.unique(return_inverse=True)
        self.rows = torch.zeros(len(self._states), dtype=torch.int64)
        self.rows[where] = steps.before
        self.place = where
        self._values: dict[str, Tensor] = {}

    def update(self, num_updates: int, policies: Mapping[str, Tensor]) -> None:
        """Compute the values of the policies, from those of last time."""
        for name, actions in policies.items():
            chosen = torch.zeros(self._model.num_states, dtype=torch.int64)
            chosen[self._states] = actions
            values = self._values.get(name, torch.zeros(self._model.num_states))
            for _ in range(self._model.num_sweeps):
                new = self._model.q(values).gather(1, chosen[:, None]).squeeze(1)
                change, values = float((new - values).abs().max()), new
                if change <= (1 - self._model.gamma) * _PRECISION * self._model.largest:
                    break
            self._values[name] = values

    def value(self, name: str, actions: Tensor) -> PolicyValue:
        values = self._values[name][self._state] * (1 - self._model.gamma)
        return PolicyValue(values, self._episode)

    def accept(self) -> None:
        self._values["best"] = self._values["candidate"]


class TableLearner:
    """Q by sweeps of Q-learning over all recorded steps at once, from the first values on."""

    def __init__(
        self, steps: OfflineSteps, model: TableModel, base: Tensor, residual: ResidualValues
    ) -> None:
        """base [S, actions]: frozen values. The residual is their first correction."""
        self._steps, self._model, self._base, self._residual = steps, model, base, residual
        known = model.is_known.view_as(base)
        self._is_known_state = known.any(dim=1, keepdim=True)
        with torch.no_grad():
            first = base + residual(torch.arange(len(base)))[:, 0]
        self._q = torch.where(known, first, model.reward.view_as(base))
        self.is_converged = False

    def learn(self, count: int, rate: float) -> None:
        """Some sweeps; their rate is always 1."""
        model = self._model
        for _ in range(count):
            new = model.q(self._q.amax(dim=1))
            change, self._q = float((new - self._q).abs().max()), new
            if change <= (1 - model.gamma) * _PRECISION * model.largest:
                self.is_converged = True
                return

    def actions(self, rows: Tensor) -> Tensor:
        return self._values()[self._steps.observation[rows]].argmax(dim=1)

    def _values(self) -> Tensor:
        """States that were never recorded keep their first values."""
        return torch.where(self._is_known_state, self._q, self._base)

    @torch.no_grad()
    def residual(self) -> ResidualValues:
        """What to add to the frozen values."""
        found = copy.deepcopy(self._residual)
        assert isinstance(found.readout, nn.Embedding)
        found.readout.weight.copy_((self._values() - self._base) / found.scale)
        return found

    def state(self) -> dict[str, Tensor]:
        """Q of every state and action."""
        return {"q": self._q}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        found = tensors.get("q")
        if found is None or found.shape != self._q.shape:
            raise ValueError("its table has other states or actions")
        self._q = found.float()
