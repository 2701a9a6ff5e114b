"""The seam: an objective turns unrolls into a loss for phi and a cumulant for psi."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn

from visr.types import Unroll


class Learnt(NamedTuple):
    """What an objective makes of a batch."""

    cumulant: Tensor
    """[T, B, d], what psi sums; its value only, psi's gradient stops there."""
    loss: Tensor
    """[], trains phi and the objective's own parameters."""


class Objective(nn.Module, ABC):
    """phi's teacher; its own parameters, if any, learn beside phi."""

    @abstractmethod
    def forward(self, phi: nn.Module, unroll: Unroll) -> Learnt:
        """The loss and the cumulant of a batch."""


def at(observed: Tensor, cumulant: str) -> Tensor:
    """Of [T + 1, B, ...], the entries that psi sums: those reached, or (`current`) those left."""
    return observed[1:] if cumulant == "next" else observed[:-1]
