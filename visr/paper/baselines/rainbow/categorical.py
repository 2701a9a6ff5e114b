"""Distributions of returns on fixed atoms (Bellemare et al., 2017: C51)."""

from __future__ import annotations

import torch
from torch import Tensor


def project(probability: Tensor, atoms: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
    """The distribution of r + discount * Z, put back on Z's atoms: each mass goes to its two neighbours.

    probability [B, K], atoms [K] evenly spaced, reward [B], discount [B] -> [B, K]
    """
    lowest, spacing = atoms[0], atoms[1] - atoms[0]
    moved = (reward[:, None] + discount[:, None] * atoms).clamp(atoms[0], atoms[-1])
    place = ((moved - lowest) / spacing).clamp(0, len(atoms) - 1)
    below = place.floor()
    upper_share = place - below
    low = below.long()
    high = (low + 1).clamp(max=len(atoms) - 1)
    projected = torch.zeros_like(probability)
    projected.scatter_add_(1, low, probability * (1 - upper_share))
    return projected.scatter_add_(1, high, probability * upper_share)


def divergence(target: Tensor, log_probability: Tensor) -> Tensor:
    """KL(target || p) of distributions on the same atoms: [B, K], [B, K] -> [B]"""
    return (torch.xlogy(target, target) - target * log_probability).sum(dim=-1)
