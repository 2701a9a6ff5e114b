"""Slow features (Wu et al., 2019): phi spans the first eigenvectors of the graph Laplacian of the walk."""

from __future__ import annotations

import torch
from torch import Tensor

from visr.types import Unroll

_WEIGHT = 5.0
"""The weight of orthonormality relative to slowness."""


def loss(phi: Tensor, unroll: Unroll) -> Tensor:
    """|phi(s') - phi(s)|^2 + weight * d * (|cov phi - I / d|^2 + |mean phi|^2 / d), for phi [T + 1, B, d].

    phi has any length; its mean square is 1. A rotation of a solution is a solution too, which suits tasks
    that are uniform on the sphere. The mean is removed because the slowest feature is a constant.
    """
    change = (phi[1:] - phi[:-1]).square().sum(dim=-1)
    return unroll.mean_over_steps(change) + _WEIGHT * overlap(phi)


def overlap(phi: Tensor) -> Tensor:
    """d |cov - I / d|^2 + |mean|^2 of [T, B, d]: 0 for orthogonal features of mean square 1 / d."""
    flat = phi.flatten(0, -2)
    d, mean = flat.shape[-1], flat.mean(dim=0)
    centred = flat - mean
    covariance = centred.T @ centred / len(flat)
    identity = torch.eye(d, device=flat.device) / d
    return d * (covariance - identity).square().sum() + mean.square().sum()
