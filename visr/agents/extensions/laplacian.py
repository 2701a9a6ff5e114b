"""Slow features (Wu et al., 2019): phi spans the first eigenvectors of the walk's graph Laplacian."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from visr.agents import n_step_q
from visr.agents.extensions.objective import Learnt, Objective, at
from visr.types import Unroll

_WEIGHT = 5.0
"""Of orthonormality against slowness."""


class Laplacian(Objective):
    """loss = |phi(s') - phi(s)|^2 + weight * d * (|cov phi - I / d|^2 + |mean phi|^2 / d).

    phi is free in length; its mean square is 1. Any rotation of a solution is one too, which suits tasks
    that are uniform on the sphere. The mean is taken out because the slowest feature of all is a constant.
    """

    def __init__(self, cumulant: str) -> None:
        super().__init__()
        self._cumulant = cumulant

    def forward(self, phi: nn.Module, unroll: Unroll) -> Learnt:
        """Neighbours in time alike, features uncorrelated."""
        features = phi(unroll.observation)
        change = (features[1:] - features[:-1]).square().sum(dim=-1)
        slowness = n_step_q.mean_over_steps(change, unroll)
        return Learnt(at(features, self._cumulant), slowness + _WEIGHT * _overlap(features))


def _overlap(features: Tensor) -> Tensor:
    """d |cov - I / d|^2 + |mean|^2 of [T, B, d], which is 0 for orthogonal features of mean square 1 / d."""
    flat = features.flatten(0, -2)
    d, mean = flat.shape[-1], flat.mean(dim=0)
    centred = flat - mean
    moments = centred.T @ centred / len(flat)
    wanted = torch.eye(d, device=flat.device) / d
    return d * (moments - wanted).square().sum() + mean.square().sum()
