"""NSQ: n-step Q-learning of the game's own reward, clipped; the paper's supervised baseline.

Mnih et al. (2016) for the rule; VISR's networks, exploration and optimiser, as in Hansen et al. (2020).
"""

from __future__ import annotations

from torch import nn

from visr.agents import n_step_q
from visr.agents.base import Losses, Values
from visr.types import Unroll


class Nsq(Values):
    """The one agent here that is trained on rewards."""

    def losses(self, unroll: Unroll) -> Losses:
        """c = r clipped to [-1, 1]"""
        reward = unroll.reward.clamp(-1, 1)
        fit = self.loss(reward.unsqueeze(-1), unroll)
        seen = n_step_q.mean_over_steps(reward, unroll)
        return Losses(fit.loss, fit.loss.new_zeros(()), {**fit.metrics, "reward": seen})

    def cumulant_parameters(self) -> list[nn.Parameter]:
        """None: rewards are given."""
        return []
