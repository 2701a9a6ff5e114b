"""Whitened random projections: of numbered states, of vectors, and of images by pooled convolutions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from visr.config.replay import fewest_features
from visr.errors import UserError
from visr.networks.replay_trunks import Standardise
from visr.networks.transition_features.base import (
    TransitionFeatures,
    WhitenedRows,
    ended,
    of_unroll,
    whitening,
)
from visr.types import Transitions, Unroll

_FLOOR = 1e-6
_CHANNELS = 32
_CELLS = 4
_BATCH = 256


class StateProjection(TransitionFeatures):
    """A fixed Gaussian projection of the one-hot state and the end, whitened on recorded steps.

    With at least as many features as states every reward of states is linear in them.
    """

    of_states = True

    def __init__(self, num_states: int, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features
        self.projection: Tensor
        self.whiten: Tensor
        projection = torch.randn(num_states, num_features - 1) / math.sqrt(num_features)
        self.register_buffer("projection", projection)
        self.register_buffer("whiten", torch.eye(num_features))

    def fit(self, recorded: Unroll) -> None:
        """Whiten."""
        self.whiten.copy_(whitening(self._raw(of_unroll(recorded)), floor=_FLOOR))

    def forward(self, steps: Transitions) -> Tensor:
        """[N, d]"""
        return self._raw(steps) @ self.whiten

    def _raw(self, steps: Transitions) -> Tensor:
        state = self.projection[steps.next_observation]
        return torch.cat([ended(steps)[:, None], state], dim=-1)


class VectorProjection(WhitenedRows):
    """1, the end of the episode, and whitened [x, cos(x F + b)] of the standardised vector x.

    F has 1, 2 or all coordinates, at length scales from 0.35 to 2.1 deviations.
    """

    of_states = True

    def __init__(self, num_inputs: int, num_features: int) -> None:
        super().__init__(num_features)
        num_cosines = num_features - 2 - num_inputs
        if num_features < fewest_features(num_inputs):
            raise UserError(
                f"num_features = {num_features} is too small for observations of {num_inputs} numbers; "
                f"give at least {fewest_features(num_inputs)}."
            )
        self.standardise = Standardise(num_inputs)
        self.frequency: Tensor
        self.phase: Tensor
        used = torch.tensor([1, 2, num_inputs])[torch.randint(0, 3, (num_cosines,))]
        chosen = torch.rand(num_inputs, num_cosines).argsort(dim=0) < used.clamp(max=num_inputs)
        length = torch.exp(torch.rand(num_cosines) * math.log(6) + math.log(0.35))
        self.register_buffer("frequency", torch.randn(num_inputs, num_cosines) * chosen / length)
        self.register_buffer("phase", torch.rand(num_cosines) * 2 * math.pi)

    def prepare(self, recorded: Unroll) -> None:
        """Standardise the vectors."""
        self.standardise.fit(of_unroll(recorded).next_observation)

    def rows(self, steps: Transitions) -> Tensor:
        """[N, d - 2]"""
        x = self.standardise(steps.next_observation)
        return torch.cat([x, torch.cos(x @ self.frequency + self.phase)], dim=-1)


class PooledConvolutions(WhitenedRows):
    """1, the end of the episode, and a whitened projection of pooled random convolutions.

    The convolutions see the newest frame of s' and what changed since s; they are never trained.
    """

    def __init__(self, shape: tuple[int, ...], num_features: int, brightest: int) -> None:
        super().__init__(num_features)
        self._brightest = brightest
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
        self.register_buffer("projection", torch.randn(wide, num_features - 2) / wide**0.5)

    def rows(self, steps: Transitions) -> Tensor:
        """[N, d - 2]"""
        before = steps.next_observation if steps.observation is None else steps.observation
        parts = []
        for start in range(0, len(before), _BATCH):
            after = steps.next_observation[start : start + _BATCH].float() / self._brightest
            changed = after - before[start : start + _BATCH].float() / self._brightest
            parts.append(self.body(torch.cat([after, changed], dim=1)) @ self.projection)
        return torch.cat(parts)
