"""Whitened random projections of the state that a step reaches, and the end of the episode."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from visr.errors import UserError
from visr.networks.replay_trunks import Standardise
from visr.networks.transition_features.base import (
    TransitionFeatures,
    ended,
    of_unroll,
    whitening,
)
from visr.types import Transitions, Unroll

_FLOOR, _RIDGE = 1e-6, 1e-3
_RAREST_END = 0.01


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


class VectorProjection(TransitionFeatures):
    """1, the end of the episode, and whitened [x, cos(x F + b)] of the standardised vector x.

    F has 1, 2 or all coordinates, at length scales from 0.35 to 2.1 deviations.
    """

    constant, end = 0, 1
    of_states = True

    def __init__(self, num_inputs: int, num_features: int) -> None:
        super().__init__()
        num_cosines = num_features - 2 - num_inputs
        if num_cosines < 1:
            raise UserError(
                f"num_features = {num_features} is too small for observations of {num_inputs} numbers; "
                f"give at least {num_inputs + 3}."
            )
        self.num_features = num_features
        self.standardise = Standardise(num_inputs)
        self.frequency: Tensor
        self.phase: Tensor
        self.mean: Tensor
        self.whiten: Tensor
        self.end_scale: Tensor
        used = torch.tensor([1, 2, num_inputs])[torch.randint(0, 3, (num_cosines,))]
        chosen = torch.rand(num_inputs, num_cosines).argsort(dim=0) < used.clamp(max=num_inputs)
        length = torch.exp(torch.rand(num_cosines) * math.log(6) + math.log(0.35))
        self.register_buffer("frequency", torch.randn(num_inputs, num_cosines) * chosen / length)
        self.register_buffer("phase", torch.rand(num_cosines) * 2 * math.pi)
        self.register_buffer("mean", torch.zeros(num_features - 2))
        self.register_buffer("whiten", torch.eye(num_features - 2))
        self.register_buffer("end_scale", torch.ones(()))

    def fit(self, recorded: Unroll) -> None:
        """Standardise the vectors, whiten the rest, and scale the end by how rare it is."""
        steps = of_unroll(recorded)
        self.standardise.fit(steps.next_observation)
        rows = self._rows(steps.next_observation)
        self.mean.copy_(rows.mean(dim=0))
        self.whiten.copy_(whitening(rows - self.mean, ridge=_RIDGE))
        self.end_scale.copy_(ended(steps).mean().clamp(min=_RAREST_END).rsqrt())

    def forward(self, steps: Transitions) -> Tensor:
        """[N, d]"""
        end = (ended(steps) * self.end_scale)[:, None]
        rows = (self._rows(steps.next_observation) - self.mean) @ self.whiten
        return torch.cat([torch.ones_like(end), end, rows], dim=-1)

    def _rows(self, observation: Tensor) -> Tensor:
        x = self.standardise(observation)
        return torch.cat([x, torch.cos(x @ self.frequency + self.phase)], dim=-1)
