"""The interface of features of a step."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from visr.types import Transitions, Unroll

_RIDGE = 1e-3
_RAREST_END = 0.01


class TransitionFeatures(nn.Module, ABC):
    """chi(s, a, s') [N, d]; what it has learnt from recorded steps is in its buffers."""

    num_features: int
    constant: int | None = None
    """The feature that is 1 in every step."""
    end: int | None = None
    """The feature that tells the end of an episode."""
    counts_events = False
    """Whether features count events, most of them 0 in most steps."""
    of_states = False
    """Whether features are of s' and the end alone, so that states have features, too."""

    @property
    def num_used(self) -> int:
        """Features that are not 0 in all steps."""
        return self.num_features

    def typical_return(self, gamma: float) -> float:
        """The size of discounted sums that psi's last layer starts from."""
        return 0.25 / (1 - gamma)

    @abstractmethod
    def fit(self, recorded: Unroll) -> None:
        """Choose and scale the features by recorded unrolls; called at the start of every stage."""

    @abstractmethod
    def forward(self, steps: Transitions) -> Tensor:
        """[N, d]"""

    def names(self) -> list[str]:
        """What each feature is, in words; empty where they mean nothing by themselves."""
        return []


class WhitenedRows(TransitionFeatures):
    """1, the end of the episode scaled by how rare it is, and whitened rows."""

    constant, end = 0, 1

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features
        self.mean: Tensor
        self.whiten: Tensor
        self.end_scale: Tensor
        self.register_buffer("mean", torch.zeros(num_features - 2))
        self.register_buffer("whiten", torch.eye(num_features - 2))
        self.register_buffer("end_scale", torch.ones(()))

    @abstractmethod
    def rows(self, steps: Transitions) -> Tensor:
        """What is whitened: [N, d - 2]."""

    def prepare(self, recorded: Unroll) -> None:
        """What comes before whitening, such as to learn."""

    @torch.no_grad()
    def fit(self, recorded: Unroll) -> None:
        """Prepare, whiten, and scale the end."""
        self.prepare(recorded)
        steps = of_unroll(recorded)
        rows = self.rows(steps)
        self.mean.copy_(rows.mean(dim=0))
        self.whiten.copy_(whitening(rows - self.mean, ridge=_RIDGE))
        self.end_scale.copy_(ended(steps).mean().clamp(min=_RAREST_END).rsqrt())

    def forward(self, steps: Transitions) -> Tensor:
        """[N, d]"""
        end = (ended(steps) * self.end_scale)[:, None]
        rows = (self.rows(steps) - self.mean) @ self.whiten
        return torch.cat([torch.ones_like(end), end, rows], dim=-1)


def of_unroll(recorded: Unroll) -> Transitions:
    """All steps of an unroll, without those that only reset: N <= T * B of them, in order of time."""
    kept = ~recorded.is_reset
    return Transitions(
        recorded.observation[1:][kept],
        recorded.observation[:-1][kept],
        recorded.action[kept],
        recorded.terminated[kept],
    )


def ended(steps: Transitions) -> Tensor:
    """[N] float32: 1 where the episode ended; 0 where that is not known."""
    if steps.terminated is None:
        return torch.zeros(len(steps.next_observation), device=steps.next_observation.device)
    return steps.terminated.float()


def whitening(rows: Tensor, floor: float = 0.0, ridge: float = 0.0) -> Tensor:
    """The symmetric matrix that makes second moments of rows [N, k] the identity.

    Directions with less than `floor` of the largest moment become 0; `ridge` of it is added to all.
    """
    moments = rows.double().T @ rows.double() / len(rows)
    spread, basis = torch.linalg.eigh(moments)
    largest = spread[-1].clamp(min=1e-12)
    scale = torch.where(spread > floor * largest, (spread + ridge * largest).clamp(min=1e-12), 1)
    inverse = torch.where(spread > floor * largest, scale.rsqrt(), 0)
    return ((basis * inverse) @ basis.T).float()
