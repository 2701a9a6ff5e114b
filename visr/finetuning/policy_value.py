"""How good policies are for a reward, estimated from held-out recorded steps: fitted Q evaluation.

Q_pi(s, a) = r + gamma Q_pi(s', pi(s')) is fitted to held-out steps, which did not train the policy. The value
of a policy is the mean of Q_pi(s, pi(s)) over the held-out states.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from visr.finetuning.offline_steps import OfflineSteps
from visr.networks.residual_values import ResidualValues
from visr.ops.adam import Adam

POLICIES: tuple[str, ...] = ("given", "best", "candidate")
_ORDER = (2, 1, 2, 0)
"""The policy of each update in turn: the candidate changes most, so it gets half of them."""
_N_STEP = 5
_BATCH, _RATE, _TARGET_RATE, _MAX_GRADIENT_NORM = 256, 1e-3, 0.02, 10.0
_FEWEST_EPISODES, _STRETCH = 10, 100
_SAME = 1e-6
"""Smaller gains, as a share of the value, are rounding."""
_MOST_VALUED, _VALUED_AT_ONCE = 8_192, 1_024
"""Held-out states whose values are averaged, and how many go through the network at once."""


class PolicyValue(NamedTuple):
    """The value of each held-out state under a policy."""

    by_state: Tensor
    """[H], per step of reward: values times 1 - gamma"""
    episode: Tensor
    """[H]"""

    @property
    def mean(self) -> float:
        """Over the held-out states."""
        return float(self.by_state.mean())

    def gain_over(self, other: PolicyValue) -> tuple[float, float]:
        """The mean difference, and its standard error over episodes, or over stretches of few long ones."""
        difference = (self.by_state - other.by_state).double()
        _, number = self.episode.unique(return_inverse=True)
        if int(number.max()) + 1 < _FEWEST_EPISODES:
            number = torch.arange(len(difference)) // _STRETCH
        count = int(number.max()) + 1
        sums = torch.zeros(count, dtype=torch.float64).index_add_(0, number, difference)
        sizes = torch.bincount(number, minlength=count)
        gain = float(difference.mean())
        if count < 2:
            return gain, 0.0
        spread = (sums - gain * sizes).square().sum() * count / (count - 1)
        return gain, float(spread.sqrt() / sizes.sum())


def is_better(value: PolicyValue, other: PolicyValue) -> bool:
    """Whether the gain is larger than its standard error, or there is a gain and no state loses."""
    gain, error = value.gain_over(other)
    rounding = _SAME * abs(other.mean)
    loses = bool((value.by_state < other.by_state - rounding).any())
    return gain > rounding and (gain > error or not loses)


def n_step(
    steps: OfflineSteps, reward: Tensor, gamma: float, n: int, follows: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of up to n discounted rewards, the discount after them and the row they reach: [N] each.

    follows [N] bool: whether the sum may go on from step i to step i + 1.
    """
    index = torch.arange(len(reward))
    alive, last = torch.ones(len(reward), dtype=torch.bool), index.clone()
    total, discount = torch.zeros_like(reward), torch.ones_like(reward)
    for _ in range(n):
        total += torch.where(alive, discount * reward[index], 0.0)
        factor = gamma * (~steps.terminated[index]).float()
        discount = torch.where(alive, discount * factor, discount)
        last = torch.where(alive, index, last)
        alive = alive & follows[index]
        index = (index + 1).clamp(max=len(reward) - 1)
    return total, discount, steps.after[last]


@torch.no_grad()
def move_average(averaged: list[Tensor], tensors: list[Tensor], share: float) -> None:
    """Move averages a share of the way towards the tensors."""
    for average, tensor in zip(averaged, tensors, strict=True):
        average.lerp_(tensor, share)


class PolicyEvaluation(Protocol):
    """Estimates the values of the policies given, best and candidate."""

    rows: Tensor
    """[U], the stored observations at which policies must say their actions."""
    place: Tensor
    """[H], the row's number for the state of each held-out step"""

    def update(self, num_updates: int, policies: Mapping[str, Tensor]) -> None:
        """Fit to policies, each by its actions [U]."""
        ...

    def value(self, name: str, actions: Tensor) -> PolicyValue:
        """The value of one of them."""
        ...

    def accept(self) -> None:
        """The candidate becomes the best."""
        ...


class FittedEvaluation:
    """A network with one head for each policy, fitted to held-out steps.

    Returns go on for up to five steps while the recorded actions are the policy's own.
    """

    def __init__(
        self,
        steps: OfflineSteps,
        reward: Tensor,
        gamma: float,
        network: ResidualValues,
        base: Callable[[Tensor], Tensor],
        rng: torch.Generator,
    ) -> None:
        """`base` gives frozen values [n, actions] at rows [n]; the network adds to them."""
        self._steps, self._reward, self._gamma, self._base = steps, reward, gamma, base
        self._network, self._target = network, copy.deepcopy(network).requires_grad_(False)
        self._optimiser = Adam(network.parameters(), lr=_RATE, eps=1e-5)
        self._rng = rng
        self.rows, index = torch.cat([steps.before, steps.after]).unique(return_inverse=True)
        self.place = index[: len(steps)]
        self._place_of_row = torch.zeros(len(steps.observation), dtype=torch.int64)
        self._place_of_row[self.rows] = torch.arange(len(self.rows))
        chosen = torch.randperm(len(steps), generator=rng)[:_MOST_VALUED]
        self._valued = chosen.sort().values

    def update(self, num_updates: int, policies: Mapping[str, Tensor]) -> None:
        targets = [self._returns(policies[name]) for name in POLICIES]
        parameters: list[Tensor] = list(self._network.parameters())
        averaged: list[Tensor] = list(self._target.parameters())
        for update in range(num_updates):
            head = _ORDER[update % len(_ORDER)]
            total, discount, rows, actions = targets[head]
            i = torch.randint(len(self._steps), (_BATCH,), generator=self._rng)
            with torch.no_grad():
                after = self._values(self._target, rows[i], head)
                y = total[i] + discount[i] * after.gather(1, actions[i, None]).squeeze(1)
            q = self._values(self._network, self._steps.before[i], head)
            taken = q.gather(1, self._steps.action[i, None]).squeeze(1)
            loss = (taken - y).square().mean()
            self._optimiser.zero_grad()
            loss.backward()
            clip_grad_norm_(parameters, _MAX_GRADIENT_NORM)
            self._optimiser.step()
            move_average(averaged, parameters, _TARGET_RATE)

    def _returns(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The policy's returns from every held-out step, where they end, and its action there."""
        agrees = self._steps.action == actions[self.place]
        follows = self._steps.continues & torch.cat([agrees[1:], agrees.new_zeros(1)])
        total, discount, rows = n_step(self._steps, self._reward, self._gamma, _N_STEP, follows)
        return total, discount, rows, actions[self._place_of_row[rows]]

    def _values(self, network: ResidualValues, rows: Tensor, head: int) -> Tensor:
        return self._base(rows) + network(self._steps.observations(rows))[:, head]

    @torch.no_grad()
    def value(self, name: str, actions: Tensor) -> PolicyValue:
        """The fitted value of one of the policies at the held-out states."""
        rows = self._steps.before[self._valued]
        chosen = actions[self.place[self._valued]]
        parts = [
            self._values(self._target, part, POLICIES.index(name))
            for part in rows.split(_VALUED_AT_ONCE)
        ]
        values = torch.cat(parts).gather(1, chosen[:, None]).squeeze(1)
        return PolicyValue(values * (1 - self._gamma), self._steps.episode[self._valued])

    @torch.no_grad()
    def accept(self) -> None:
        """Copy the candidate's head into that of the best."""
        best, candidate = POLICIES.index("best"), POLICIES.index("candidate")
        for network in (self._network, self._target):
            for parameter in network.readout.parameters():
                heads = parameter.unflatten(0, (len(POLICIES), -1))
                heads[best] = heads[candidate]
