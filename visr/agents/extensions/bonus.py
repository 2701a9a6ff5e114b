"""The contract of exploration bonuses, and their scale."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from visr.config.fields import AgentConfig
from visr.types import Unroll

_RATE = 0.01
"""Step size of the running mean, per update."""


class Bonus(nn.Module, ABC):
    """b = scale * share * raw / (running mean of raw), so that `bonus_scale` is b's mean per step."""

    level: Tensor
    weight: Tensor
    share = 1.0
    """The factor that the learner lowers from 1 to 0 when the bonus decays."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__()
        self._scale = config.bonus_scale
        self.register_buffer("level", torch.zeros(()))
        self.register_buffer("weight", torch.zeros(()))

    def forward(self, phi: nn.Module, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """The bonus of every step [T, B], without gradient, and the loss [] of the bonus's own model."""
        raw, loss = self.raw(phi, unroll)
        raw = raw.detach()
        with torch.no_grad():
            self.level.lerp_(unroll.mean_over_steps(raw), _RATE)
            self.weight.lerp_(torch.ones_like(self.weight), _RATE)  # corrects the bias towards 0
            mean = self.level / self.weight
            bonus = self._scale * self.share * raw / mean.clamp(min=1e-8)
        return bonus, loss

    @abstractmethod
    def raw(self, phi: nn.Module, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """How new s' is at each step, [T, B], at least 0 in any unit; and the model's loss []."""
