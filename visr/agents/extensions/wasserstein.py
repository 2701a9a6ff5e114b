"""The Wasserstein objective of the paper's outlook, as in METRA (Park et al., 2024)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from visr.types import Unroll

_MOST_SLACK = 1e-3
"""Slack of the constraint beyond this does not count."""
_FIRST_PRICE = 30.0


class Wasserstein(nn.Module):
    """max (phi(s') - phi(s)) . w  subject to  |phi(s') - phi(s)| <= 1, by a Lagrange multiplier (the price).

    phi has any length: distances in phi are numbers of steps. The cumulant is the difference, so that
    psi . w is the distance that w's policy will still cover.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log_price = nn.Parameter(torch.tensor(math.log(_FIRST_PRICE)))

    def forward(self, phi: Tensor, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """The loss, and the cumulant phi(s') - phi(s) [T, B, d]; phi is [T + 1, B, d].

        phi ascends progress + price * slack; the price rises where steps are too long.
        """
        step = phi[1:] - phi[:-1]
        progress = (step * unroll.w).sum(dim=-1)
        slack = (1 - step.square().sum(dim=-1)).clamp(max=_MOST_SLACK)
        gain = unroll.mean_over_steps(progress + self.log_price.exp().detach() * slack)
        price_loss = self.log_price * unroll.mean_over_steps(slack).detach()
        return price_loss - gain, step
