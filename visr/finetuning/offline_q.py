"""Offline Q-learning of a residual on frozen values, by gradient steps on recorded steps."""

from __future__ import annotations

import copy
from typing import Protocol

import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from visr.agents.base import BehaviourModel
from visr.finetuning.offline_steps import OfflineSteps
from visr.finetuning.policy_value import move_average, n_step
from visr.networks.residual_values import ResidualValues
from visr.ops.adam import Adam
from visr.training.learner import within

RATE = 1e-3
BATCH, _TARGET_RATE, _MAX_GRADIENT_NORM = 512, 0.05, 10.0
_ROWS_AT_ONCE = 1_024


class OfflineLearner(Protocol):
    """Learns Q from recorded steps; the residual is what it adds to frozen values."""

    is_converged: bool
    """Whether more updates change nothing."""

    def learn(self, count: int, rate: float) -> None:
        """Some updates with that learning rate."""
        ...

    def actions(self, rows: Tensor) -> Tensor:
        """The greedy actions at stored observations: [n] -> [n]"""
        ...

    def residual(self) -> ResidualValues:
        """A copy of the residual."""
        ...

    def state(self) -> dict[str, Tensor]:
        """What later updates depend on."""
        ...

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `state`; a ValueError if a tensor cannot be used."""
        ...


class NetworkLearner:
    """Squared error of n-step Q-learning targets; a moving average of the weights is the target and acts."""

    is_converged = False

    def __init__(
        self,
        steps: OfflineSteps,
        reward: Tensor,
        base: BaseValues,
        residual: ResidualValues,
        rng: torch.Generator,
        *,
        gamma: float,
        n: int,
    ) -> None:
        self._steps, self._base, self._rng = steps, base, rng
        self._network, self._target = residual, copy.deepcopy(residual).requires_grad_(False)
        self._optimiser = Adam(residual.parameters(), lr=RATE, eps=1e-5)
        self._parameters: list[Tensor] = list(residual.parameters())
        self._averaged: list[Tensor] = list(self._target.parameters())
        self._total, self._discount, self._reached = n_step(
            steps, reward, gamma, n, steps.continues
        )

    def learn(self, count: int, rate: float) -> None:
        """Some gradient steps."""
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        for _ in range(count):
            i = torch.randint(len(self._steps), (BATCH,), generator=self._rng)
            with torch.no_grad():
                following = self._values(self._target, self._reached[i]).amax(dim=1)
                y = self._total[i] + self._discount[i] * following
            q = self._values(self._network, self._steps.before[i])
            taken = q.gather(1, self._steps.action[i][:, None]).squeeze(1)
            loss = (taken - y).square().mean()
            self._optimiser.zero_grad()
            loss.backward()
            clip_grad_norm_(self._parameters, _MAX_GRADIENT_NORM)
            self._optimiser.step()
            move_average(self._averaged, self._parameters, _TARGET_RATE)

    def _values(self, network: ResidualValues, rows: Tensor) -> Tensor:
        """Q at stored observations: [n] -> [n, actions]"""
        return self._base(rows) + network(self._steps.observations(rows))[:, 0]

    @torch.no_grad()
    def actions(self, rows: Tensor) -> Tensor:
        """The greedy actions of the averaged weights: [n] -> [n]"""
        parts = rows.split(_ROWS_AT_ONCE)
        return torch.cat([self._values(self._target, part).argmax(dim=1) for part in parts])

    def residual(self) -> ResidualValues:
        """A copy of the averaged weights."""
        return copy.deepcopy(self._target)

    def state(self) -> dict[str, Tensor]:
        """Both networks, the optimiser's moments and the random draws to come."""
        found = {f"adam.{k}": v for k, v in self._optimiser.moments().items()}
        for name, network in (("network.", self._network), ("target.", self._target)):
            found |= {name + k: v for k, v in network.state_dict().items()}
        return found | {"rng": self._rng.get_state()}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        try:
            self._network.load_state_dict(within(tensors, "network."))
            self._target.load_state_dict(within(tensors, "target."))
            self._optimiser.load_moments(within(tensors, "adam."))
            self._rng.set_state(tensors["rng"])
        except (KeyError, RuntimeError, TypeError) as error:
            raise ValueError("its networks are others") from error


class BaseValues:
    """psi(s, a, w) . w at stored observations, scaled and shifted; computed once per row."""

    def __init__(self, agent: BehaviourModel, w: Tensor, steps: OfflineSteps) -> None:
        self._agent, self._w, self._steps = agent, w, steps
        self._factor, self._offset = 1.0, 0.0
        space = steps.space
        self._of_states = isinstance(space, spaces.Discrete)
        count = int(space.n) if isinstance(space, spaces.Discrete) else len(steps.observation)
        self._values = torch.zeros(count, agent.spec.num_actions)
        self._known = torch.zeros(count, dtype=torch.bool)

    def rescale(self, factor: float, offset: float) -> None:
        """Give factor * psi . w + offset from now on."""
        self._factor, self._offset = factor, offset

    @torch.no_grad()
    def __call__(self, rows: Tensor) -> Tensor:
        """[n] -> [n, actions]"""
        if self._of_states:
            rows = self._steps.observation[rows]
        known = self._known[rows]
        if not bool(known.all()):
            self._compute(rows[~known].unique())
        return self._values[rows] * self._factor + self._offset

    def _compute(self, rows: Tensor) -> None:
        psi, device = self._agent.psi, self._agent.device
        for part in rows.split(_ROWS_AT_ONCE):
            seen = part if self._of_states else self._steps.observations(part)
            w = self._w.expand(len(part), -1)
            hidden = psi.first_step(seen.to(device))
            self._values[part] = psi.gpi_values(hidden, w.unsqueeze(1), psi.fold(w)).cpu()
        self._known[rows] = True

    @property
    def table(self) -> Tensor:
        """The values of all numbered states, [S, actions]."""
        assert self._of_states
        self._compute(torch.nonzero(~self._known)[:, 0])
        return self._values * self._factor + self._offset
