"""Particle entropy (as in APT; Liu and Abbeel, 2021): new is what lies far from its nearest neighbours."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from visr.agents.extensions.bonus import Bonus
from visr.config import AgentConfig
from visr.types import Unroll


class Particles(Bonus):
    """raw = log(1 + mean distance of phi(s') to its k nearest neighbours in the batch)."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        self._neighbours = config.bonus_neighbours

    @torch.no_grad()
    def raw(self, phi: nn.Module, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """Nothing to learn: phi is the space."""
        points = phi(unroll.observation[1:]).flatten(0, 1)
        count = min(self._neighbours, len(points) - 1)
        distances = torch.cdist(points, points)
        nearest = distances.topk(count + 1, largest=False).values[:, 1:]  # the nearest is itself
        raw = nearest.mean(dim=-1).log1p() if count else points.new_zeros(len(points))
        return raw.view(unroll.action.shape), points.new_zeros(())
