"""Plain formulas that fast code is compared with."""

from __future__ import annotations

import torch
from scipy import special
from torch import Tensor

from visr.agents.visr import n_step_error
from visr.types import Unroll


def gpi_values(psi: Tensor, w: Tensor) -> Tensor:
    """max_i psi(s, a, w_i) . w: psi [policies, ..., actions, d], w [..., d] -> [..., actions]"""
    return (psi @ w.unsqueeze(-1)).squeeze(-1).amax(dim=0)


def n_step_targets(psi: Tensor, cumulant: Tensor, unroll: Unroll, gamma: float, n: int) -> Tensor:
    """The targets y that the agents use: a prediction of 0 has the error -y, whatever the action."""
    unroll = unroll._replace(action=torch.zeros_like(unroll.action))
    return -n_step_error(torch.zeros_like(psi), psi, cumulant, unroll, gamma, n)


def vmf_mean_cosine(d: int, kappa: float) -> float:
    """A_d(kappa) = I_{d/2}(kappa) / I_{d/2-1}(kappa), the mean of mu . x."""
    return float(special.ive(d / 2, kappa) / special.ive(d / 2 - 1, kappa)) if kappa else 0.0
