"""Particle entropy (APT; Liu and Abbeel, 2021): new states are those far from their nearest neighbours."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from visr.agents.extensions.bonus import Bonus
from visr.config.fields import AgentConfig
from visr.types import Unroll


class ParticleBonus(Bonus):
    """raw = log(1 + mean distance of phi(s') to its k nearest neighbours in the batch)."""

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
