"""Temporal distance (METRA; Park et al., 2024): w is a direction to go far in; a step is at most 1 long."""

from __future__ import annotations

import math

import torch
from torch import nn

from visr.agents import n_step_q
from visr.agents.extensions.objective import Learnt, Objective
from visr.types import Unroll

_ENOUGH = 1e-3
"""Slack beyond this earns nothing."""
_FIRST_PRICE = 30.0


class Metra(Objective):
    """max (phi(s') - phi(s)) . w  subject to  |phi(s') - phi(s)| <= 1, with a price on the constraint.

    phi is free in length: distances in it are numbers of steps. The cumulant is the difference, so psi . w
    counts how far pursuing w still leads, and telescopes to the end of the way.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log_price = nn.Parameter(torch.tensor(math.log(_FIRST_PRICE)))

    def forward(self, phi: nn.Module, unroll: Unroll) -> Learnt:
        """phi ascends progress + price * slack; the price rises where the constraint is broken."""
        features = phi(unroll.observation)
        step = features[1:] - features[:-1]
        progress = (step * unroll.w).sum(dim=-1)
        slack = (1 - step.square().sum(dim=-1)).clamp(max=_ENOUGH)
        price = self.log_price.exp()
        gain = n_step_q.mean_over_steps(progress + price.detach() * slack, unroll)
        bill = self.log_price * n_step_q.mean_over_steps(slack, unroll).detach()
        return Learnt(step, bill - gain)
