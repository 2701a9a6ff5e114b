"""Uniformly random actions: what every other agent has to beat."""

from __future__ import annotations

import torch
from torch import nn

from visr.agents.base import Losses, Values
from visr.types import Unroll


class Uniform(Values):
    """Has values like the others, of nothing at all, and never asks them: its epsilon is 1."""

    def losses(self, unroll: Unroll) -> Losses:
        """c = 0"""
        fit = self.loss(torch.zeros_like(unroll.reward).unsqueeze(-1), unroll)
        return Losses(fit.loss, fit.loss.new_zeros(()), fit.metrics)

    def cumulant_parameters(self) -> list[nn.Parameter]:
        """None: there is nothing to know."""
        return []
