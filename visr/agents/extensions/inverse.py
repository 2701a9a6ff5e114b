"""Inverse dynamics: phi keeps what tells which action was taken between two states."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from visr.agents import n_step_q
from visr.agents.extensions.objective import Learnt, Objective, at
from visr.networks.torsos import linear
from visr.types import Unroll

_SIZE = 128


class Inverse(Objective):
    """loss = -log p(a | phi(s), phi(s')); phi stays a unit vector and is the cumulant, as in VISR."""

    def __init__(self, num_features: int, num_actions: int, cumulant: str) -> None:
        super().__init__()
        self._cumulant = cumulant
        self.model = nn.Sequential(
            linear(2 * num_features, _SIZE), nn.ReLU(), linear(_SIZE, num_actions)
        )

    def forward(self, phi: nn.Module, unroll: Unroll) -> Learnt:
        """Cross entropy of the action taken, over steps that are steps."""
        features = phi(unroll.observation)
        logits = self.model(torch.cat([features[:-1], features[1:]], dim=-1))
        error = functional.cross_entropy(
            logits.flatten(0, 1), unroll.action.flatten(), reduction="none"
        )
        loss = n_step_q.mean_over_steps(error.view_as(unroll.action), unroll)
        return Learnt(at(features, self._cumulant), loss)
