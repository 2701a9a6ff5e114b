"""Pooled random convolutions of s and s', whitened: features of a step for pixels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from visr.networks.transition_features.base import (
    TransitionFeatures,
    ended,
    of_unroll,
    whitening,
)
from visr.types import Transitions, Unroll

_CHANNELS = 32
_CELLS = 4
_BATCH = 256
_RIDGE = 1e-3
_RAREST_END = 0.01


class PooledConvolutions(TransitionFeatures):
    """1, the end of the episode, and a whitened projection of pooled random convolutions.

    The convolutions see the newest frame of s' and what changed since s; they are never trained.
    """

    constant, end = 0, 1

    def __init__(self, shape: tuple[int, ...], num_features: int, brightest: int) -> None:
        super().__init__()
        self.num_features, self._brightest = num_features, brightest
        stride = max(1, min(shape[1:]) // 20)
        self.body = nn.Sequential(
            nn.Conv2d(2 * shape[0], _CHANNELS, 2 * stride + 1, stride=stride),
            nn.ReLU(),
            nn.Conv2d(_CHANNELS, _CHANNELS, 3),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(min(_CELLS, min(shape[1:]))),
            nn.Flatten(),
        ).requires_grad_(False)
        with torch.no_grad():
            wide = self.body(torch.zeros(1, 2 * shape[0], *shape[1:])).shape[1]
        self.projection: Tensor
        self.mean: Tensor
        self.whiten: Tensor
        self.end_scale: Tensor
        self.register_buffer("projection", torch.randn(wide, num_features - 2) / wide**0.5)
        self.register_buffer("mean", torch.zeros(num_features - 2))
        self.register_buffer("whiten", torch.eye(num_features - 2))
        self.register_buffer("end_scale", torch.ones(()))

    @torch.no_grad()
    def fit(self, recorded: Unroll) -> None:
        """Whiten, and scale the end by how rare it is."""
        steps = of_unroll(recorded)
        rows = self._rows(steps)
        self.mean.copy_(rows.mean(dim=0))
        self.whiten.copy_(whitening(rows - self.mean, ridge=_RIDGE))
        self.end_scale.copy_(ended(steps).mean().clamp(min=_RAREST_END).rsqrt())

    def forward(self, steps: Transitions) -> Tensor:
        """[N, d]"""
        end = (ended(steps) * self.end_scale)[:, None]
        rows = (self._rows(steps) - self.mean) @ self.whiten
        return torch.cat([torch.ones_like(end), end, rows], dim=-1)

    def _rows(self, steps: Transitions) -> Tensor:
        before = steps.next_observation if steps.observation is None else steps.observation
        parts = []
        for start in range(0, len(before), _BATCH):
            after = steps.next_observation[start : start + _BATCH].float() / self._brightest
            changed = after - before[start : start + _BATCH].float() / self._brightest
            parts.append(self.body(torch.cat([after, changed], dim=1)) @ self.projection)
        return torch.cat(parts)
