"""Pos-Reward NSQ (Hansen et al., 2020): a small constant at every step, so that staying alive is all."""

from __future__ import annotations

import torch
from torch import nn

from visr.agents.base import Losses, Values
from visr.types import Unroll


class PosNsq(Values):
    """Sums a constant until the episode ends."""

    def losses(self, unroll: Unroll) -> Losses:
        """c = `constant_reward`"""
        constant = torch.full_like(unroll.reward, self.config.constant_reward)
        fit = self.loss(constant.unsqueeze(-1), unroll)
        return Losses(fit.loss, fit.loss.new_zeros(()), fit.metrics)

    def cumulant_parameters(self) -> list[nn.Parameter]:
        """None: a constant needs none."""
        return []
