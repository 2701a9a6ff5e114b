"""Exploration bonuses: random network distillation and particle entropy."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from visr import networks
from visr.config.fields import AgentConfig
from visr.types import EnvSpec, Unroll

_RATE = 0.01
"""Step size of the running mean, per update."""
_RND_SIZE = 32


class Bonus(nn.Module, ABC):
    """b = scale * share * raw / (running mean of raw), so that `bonus_scale` is b's mean per step."""

    level: Tensor
    weight: Tensor
    share = 1.0
    """The factor that the learner lowers from 1 to 0 when the bonus decays."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__()
        self._scale = config.bonus_scale
        self.register_buffer("level", torch.zeros(()))
        self.register_buffer("weight", torch.zeros(()))

    def forward(self, phi: nn.Module, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """The bonus of every step [T, B], without gradient, and the loss [] of the bonus's own model."""
        raw, loss = self.raw(phi, unroll)
        raw = raw.detach()
        with torch.no_grad():
            self.level.lerp_(unroll.mean_over_steps(raw), _RATE)
            self.weight.lerp_(torch.ones_like(self.weight), _RATE)  # corrects the bias towards 0
            mean = self.level / self.weight
            bonus = self._scale * self.share * raw / mean.clamp(min=1e-8)
        return bonus, loss

    @abstractmethod
    def raw(self, phi: nn.Module, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """How new s' is at each step, [T, B], at least 0 in any unit; and the model's loss []."""


class RndBonus(Bonus):
    """Random network distillation (Burda et al., 2019): raw = |predictor(s') - target(s')|^2.

    The target is random and never changes.
    """

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__(config)
        self.target, self.predictor = (
            networks.features(spec, config, _RND_SIZE, unit=False, centred=False) for _ in range(2)
        )
        self.target.requires_grad_(False)

    def raw(self, phi: nn.Module, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """The error of each step; its mean is the loss."""
        reached = unroll.observation[1:]
        error = (self.predictor(reached) - self.target(reached).detach()).square().mean(dim=-1)
        return error, unroll.mean_over_steps(error)


class ParticleBonus(Bonus):
    """Particle entropy (APT; Liu and Abbeel, 2021).

    raw = log(1 + mean distance of phi(s') to its k nearest neighbours in the batch)
    """

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        self._num_neighbours = config.bonus_neighbours

    @torch.no_grad()
    def raw(self, phi: nn.Module, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """Distances in phi; nothing learns, so that the loss is 0."""
        points = phi(unroll.observation[1:]).flatten(0, 1)
        count = min(self._num_neighbours, len(points) - 1)
        distances = torch.cdist(points, points)
        nearest = distances.topk(count + 1, largest=False).values[:, 1:]  # without the point itself
        raw = nearest.mean(dim=-1).log1p() if count else points.new_zeros(len(points))
        return raw.view(unroll.action.shape), points.new_zeros(())
