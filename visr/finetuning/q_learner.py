"""n-step Q-learning on one reward; at first Q(s, a) = psi(s, a, w) . w."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from visr.agents.base import BehaviourModel
from visr.agents.visr import n_step_error
from visr.config import FinetuneConfig
from visr.networks.residual_values import RefinedSuccessorFeatures, ResidualValues
from visr.networks.successor import SuccessorFeatures
from visr.ops.adam import Adam
from visr.training.learner import within
from visr.types import Unroll

_SMALLEST_UNIT = 0.1
_MAX_GRADIENT_NORM = 10.0
_PHI_BATCH = 32
"""Unrolls per pass through phi; all unrolls of a game with images would not fit in memory."""


class QLearner:
    """Trains psi, read out at one w [d], on a scalar reward; phi and w do not change.

    Rewards are divided by `unit`, the slope of r against c . w, where c is the cumulant that psi sums, and
    `offset` is added to Q for the rest of r. So the first Q is as close to the reward's Q as the features
    permit. Without `estimate_unit` the unit is 1. A refined task's residual is added to Q and stays as it is.
    """

    def __init__(
        self,
        agent: BehaviourModel,
        settings: FinetuneConfig,
        w: Tensor,
        clip_rewards: bool,
        residual: ResidualValues | None = None,
    ) -> None:
        self.agent, self._settings, self._clips = agent, settings, clip_rewards
        self._gamma, self._device = agent.config.gamma, agent.device
        self._w = w.to(self._device)
        self.psi: SuccessorFeatures = agent.psi
        """psi that acts: the agent's, with the residual if there is one."""
        if residual is not None:
            self.psi = RefinedSuccessorFeatures(agent.psi, residual, self._w)
        self._target = copy.deepcopy(self.psi).requires_grad_(False)
        self.offset = nn.Parameter(torch.zeros((), device=self._device))
        self.unit = 1.0
        agent.psi.requires_grad_(True)
        self._optimiser = Adam(
            [*agent.psi.parameters(), self.offset], lr=settings.learning_rate, eps=1e-5
        )
        self.num_updates = 0

    def clipped(self, reward: Tensor) -> Tensor:
        """The reward that Q learns: clipped to [-1, 1] if the run says so."""
        return reward.clamp(-1, 1) if self._clips else reward

    @torch.no_grad()
    def estimate_unit(self, seen: Unroll) -> None:
        """r ~ unit * c . w + rest, by least squares on these steps."""
        is_step = ~seen.is_reset
        parts = (seen.part(i, i + _PHI_BATCH) for i in range(0, seen.num_unrolls, _PHI_BATCH))
        sums = [self.agent.cumulants(p.to(self._device)) for p in parts]
        x = (torch.cat([c.cpu() for c in sums], dim=1) @ self._w.cpu())[is_step]
        r = self.clipped(seen.reward)[is_step]
        variance = float((x - x.mean()).square().mean())
        slope = float(((x - x.mean()) * (r - r.mean())).mean()) / max(variance, 1e-12)
        self.unit = max(slope, _SMALLEST_UNIT) if bool(r.any()) else 1.0
        rest = float(r.mean()) / self.unit - float(x.mean())
        self.offset.fill_(rest / (1 - self._gamma))

    def update(self, unroll: Unroll) -> Tensor:
        """One gradient step on the squared n-step error; returns the loss."""
        unroll = unroll.to(self._device)
        scalar = unroll._replace(w=unroll.w.new_ones(unroll.num_unrolls, 1))
        reward = self.clipped(unroll.reward).unsqueeze(-1) / self.unit
        with torch.no_grad():
            future = self.values(self._target, unroll)
        values, n = self.values(self.psi, unroll), self._settings.n_step
        error = n_step_error(values, future, reward, scalar, self._gamma, n)
        loss = scalar.mean_over_steps(error.square().sum(dim=-1))
        self._optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.agent.psi.parameters(), _MAX_GRADIENT_NORM)
        self._optimiser.step()
        self.num_updates += 1
        if self.num_updates % self._settings.target_period == 0:
            self._target.load_state_dict(self.psi.state_dict())
        return loss.detach()

    def values(self, psi: SuccessorFeatures, unroll: Unroll) -> Tensor:
        """Q = psi . w + offset as one feature: [T + 1, B, actions, 1]"""
        return (psi.along(unroll) @ self._w + self.offset).unsqueeze(-1)

    def state(self) -> dict[str, Tensor]:
        """Agent, target, optimiser, unit and offset; any run loads the agent by these names."""
        tensors = {f"learner.agent.{k}": v for k, v in self.agent.state_dict().items()}
        tensors |= {f"adam.{k}": v for k, v in self._optimiser.moments().items()}
        tensors |= {f"target.{k}": v for k, v in self._target.state_dict().items()}
        unit = torch.tensor(self.unit, dtype=torch.float64)
        return tensors | {"offset": self.offset.detach(), "unit": unit}

    def load_state(self, tensors: dict[str, Tensor], num_updates: int) -> None:
        """The inverse of `state`; a ValueError if a value cannot be used."""
        self.num_updates = num_updates
        self.agent.load_state_dict(within(tensors, "learner.agent."))
        self._target.load_state_dict(within(tensors, "target."))
        self._optimiser.load_moments(within(tensors, "adam."))
        with torch.no_grad():
            self.offset.copy_(tensors["offset"])
        self.unit = float(tensors["unit"])
        if not 0 < self.unit < math.inf:
            raise ValueError(f"its unit is {self.unit}")
