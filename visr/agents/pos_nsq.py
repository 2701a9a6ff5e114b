"""Pos-Reward NSQ (Hansen et al., 2020): a small constant at every step, so that staying alive is all."""

from __future__ import annotations

import torch
from torch import nn

from visr.agents.values import Losses, Values
from visr.types import Unroll


class PosNsq(Values):
    """Sums a constant until the episode ends."""

    def losses(self, unroll: Unroll) -> Losses:
        """c = `constant_reward`"""
        constant = torch.full_like(unroll.reward, self.config.constant_reward)
        loss = self.loss(constant.unsqueeze(-1), unroll)
        return Losses(loss, loss.new_zeros(()), {"psi_loss": loss.detach()})

    def cumulant_parameters(self) -> list[nn.Parameter]:
        """None: a constant needs none."""
        return []
