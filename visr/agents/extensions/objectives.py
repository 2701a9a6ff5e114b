"""Other objectives for phi than log q(w | s): slow features and a Wasserstein distance."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from visr.types import Unroll

_ORTHONORMALITY = 5.0
"""The weight of orthonormality relative to slowness."""
_MOST_SLACK = 1e-3
"""Slack of the Wasserstein constraint is clipped at this value."""
_FIRST_MULTIPLIER = 30.0


def laplacian_loss(phi: Tensor, unroll: Unroll) -> Tensor:
    """Slow features (Wu et al., 2019): the first eigenvectors of the graph Laplacian of the walk.

    |phi(s') - phi(s)|^2 + weight * d * (|cov phi - I / d|^2 + |mean phi|^2 / d), for phi [T + 1, B, d].
    phi has any length; its mean square is 1. A rotation of a solution is a solution too, which suits tasks
    that are uniform on the sphere. The mean is removed because the slowest feature is a constant.
    """
    change = (phi[1:] - phi[:-1]).square().sum(dim=-1)
    return unroll.mean_over_steps(change) + _ORTHONORMALITY * overlap(phi)


def overlap(phi: Tensor) -> Tensor:
    """d |cov - I / d|^2 + |mean|^2 of [T, B, d]: 0 for orthogonal features of mean square 1 / d."""
    flat = phi.flatten(0, -2)
    d, mean = flat.shape[-1], flat.mean(dim=0)
    centred = flat - mean
    covariance = centred.T @ centred / len(flat)
    identity = torch.eye(d, device=flat.device) / d
    return d * (covariance - identity).square().sum() + mean.square().sum()


class Wasserstein(nn.Module):
    """The Wasserstein objective of the paper's outlook, as in METRA (Park et al., 2024).

    max (phi(s') - phi(s)) . w  subject to  |phi(s') - phi(s)| <= 1, by a Lagrange multiplier.
    phi has any length: distances in phi are numbers of steps. The cumulant is the difference, so that
    psi . w is the distance that w's policy will still cover.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log_price = nn.Parameter(torch.tensor(math.log(_FIRST_MULTIPLIER)))

    def forward(self, phi: Tensor, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """The loss, and the cumulant phi(s') - phi(s) [T, B, d]; phi is [T + 1, B, d].

        phi ascends progress + multiplier * slack; the multiplier rises where steps are too long.
        """
        step = phi[1:] - phi[:-1]
        progress = (step * unroll.w).sum(dim=-1)
        slack = (1 - step.square().sum(dim=-1)).clamp(max=_MOST_SLACK)
        gain = unroll.mean_over_steps(progress + self.log_price.exp().detach() * slack)
        price_loss = self.log_price * unroll.mean_over_steps(slack).detach()
        return price_loss - gain, step
