"""The seam: a bonus says how new each step was, on a scale of its own making."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from visr.agents import n_step_q
from visr.config import AgentConfig
from visr.types import Unroll

_RATE = 0.01
"""Of the running mean, per update."""


class Surprise(NamedTuple):
    """How new a batch's steps were."""

    bonus: Tensor
    """[T, B], at least 0, without gradient."""
    loss: Tensor
    """[], trains the bonus's own model; a constant 0 where it has none."""


class Bonus(nn.Module, ABC):
    """b = scale * share * raw / (running mean of raw), so that `bonus_scale` is b's mean per step."""

    level: Tensor
    weight: Tensor
    share = 1.0
    """How much of it is left; the learner lets it fall."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__()
        self._scale = config.bonus_scale
        self.register_buffer("level", torch.zeros(()))
        self.register_buffer("weight", torch.zeros(()))

    def forward(self, phi: nn.Module, unroll: Unroll) -> Surprise:
        """The bonus of every step that is one; phi is only read."""
        raw, loss = self.raw(phi, unroll)
        raw = raw.detach()
        with torch.no_grad():
            self.level.lerp_(n_step_q.mean_over_steps(raw, unroll), _RATE)
            self.weight.lerp_(
                torch.ones_like(self.weight), _RATE
            )  # so that the mean is never biased to 0
            mean = self.level / self.weight
            bonus = self._scale * self.share * raw / mean.clamp(min=1e-8)
        return Surprise(bonus, loss)

    @abstractmethod
    def raw(self, phi: nn.Module, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """How new each step's arrival was [T, B], at least 0 in any unit, and the model's loss []."""
