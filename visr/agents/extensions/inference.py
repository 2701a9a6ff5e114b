"""VISR's own: phi infers w from the states that pursuing w visits."""

from __future__ import annotations

from torch import nn

from visr.agents import n_step_q
from visr.agents.extensions.objective import Learnt, Objective, at
from visr.types import Unroll


class Inference(Objective):
    """loss = -phi . w: the log-likelihood of w under a von Mises-Fisher density around phi."""

    def __init__(self, cumulant: str) -> None:
        super().__init__()
        self._cumulant = cumulant

    def forward(self, phi: nn.Module, unroll: Unroll) -> Learnt:
        """The cumulant is phi itself, of unit length."""
        features = phi(at(unroll.observation, self._cumulant))
        reward = (features * unroll.w).sum(dim=-1)
        return Learnt(features, -n_step_q.mean_over_steps(reward, unroll))
