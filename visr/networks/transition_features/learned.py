"""Learned features of a step: what they share, inverse dynamics and self-prediction."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from visr.errors import UserError
from visr.networks.transition_features.base import (
    TransitionFeatures,
    ended,
    of_unroll,
    whitening,
)
from visr.networks.transition_features.encoder import Encoder, draw_steps, learn, orthonormality
from visr.types import EnvSpec, Transitions, Unroll

_RIDGE = 1e-3
_RAREST_END = 0.01
_WIDTH = 256


class LearnedFeatures(TransitionFeatures):
    """1, the end of the episode, and whitened rows of an encoder e that learns in `fit`.

    A stage goes on with the weights of the stage before, on all that is recorded by then.
    """

    constant, end = 0, 1

    def __init__(self, spec: EnvSpec, num_features: int, num_outputs: int, updates: int) -> None:
        super().__init__()
        if num_features < 4:
            raise UserError(
                f"num_features = {num_features} is too small: two of them are 1 and the end of the "
                "episode; give at least 4."
            )
        self.num_features, self._num_updates = num_features, updates
        self.encoder = Encoder(spec.observation_space, num_outputs)
        self.mean: Tensor
        self.whiten: Tensor
        self.end_scale: Tensor
        self.register_buffer("mean", torch.zeros(num_features - 2))
        self.register_buffer("whiten", torch.eye(num_features - 2))
        self.register_buffer("end_scale", torch.ones(()))

    @abstractmethod
    def loss(self, recorded: Unroll, rng: Generator) -> Tensor:
        """What the encoder minimises, on a random batch of recorded steps."""

    @abstractmethod
    def rows(self, steps: Transitions) -> Tensor:
        """What is whitened: [N, d - 2]."""

    @torch.no_grad()
    def fit(self, recorded: Unroll) -> None:
        """Learn, whiten, and scale the end by how rare it is."""
        steps = of_unroll(recorded)
        self.encoder.fit(steps)
        learn(self, lambda rng: self.loss(recorded, rng), self._num_updates)
        rows = self.rows(steps)
        self.mean.copy_(rows.mean(dim=0))
        self.whiten.copy_(whitening(rows - self.mean, ridge=_RIDGE))
        self.end_scale.copy_(ended(steps).mean().clamp(min=_RAREST_END).rsqrt())

    def forward(self, steps: Transitions) -> Tensor:
        """[N, d]"""
        end = (ended(steps) * self.end_scale)[:, None]
        rows = (self.rows(steps) - self.mean) @ self.whiten
        return torch.cat([torch.ones_like(end), end, rows], dim=-1)


class _StepFeatures(LearnedFeatures):
    """Rows [e(s'), e(s') - e(s)], half of the features each."""

    def __init__(self, spec: EnvSpec, num_features: int, updates: int) -> None:
        self._num_outputs = (num_features - 1) // 2
        super().__init__(spec, num_features, self._num_outputs, updates)
        self._num_actions = spec.num_actions

    def rows(self, steps: Transitions) -> Tensor:
        """[N, d - 2]; nothing changes where s is not known."""
        after = self.encoder.of_many(steps.next_observation)
        before = after if steps.observation is None else self.encoder.of_many(steps.observation)
        changed = (after - before)[:, : self.num_features - 2 - self._num_outputs]
        return torch.cat([after, changed], dim=1)


class InverseDynamics(_StepFeatures):
    """An encoder from which the action between s and s' can be told: what the agent controls."""

    def __init__(self, spec: EnvSpec, num_features: int, updates: int) -> None:
        super().__init__(spec, num_features, updates)
        self.classifier = nn.Sequential(
            nn.Linear(2 * self._num_outputs, _WIDTH),
            nn.ReLU(),
            nn.Linear(_WIDTH, spec.num_actions),
        )

    def loss(self, recorded: Unroll, rng: Generator) -> Tensor:
        """Cross-entropy of the action given e(s) and e(s')."""
        time, unroll = draw_steps(recorded, rng)
        before = self.encoder(recorded.observation[time, unroll])
        after = self.encoder(recorded.observation[time + 1, unroll])
        guess = self.classifier(torch.cat([before, after], dim=1))
        return functional.cross_entropy(guess, recorded.action[time, unroll])


class SelfPredictive(_StepFeatures):
    """An encoder whose e(s') can be predicted from e(s) and the action.

    Orthonormality keeps e from being constant; the prediction has e(s') without a gradient as its target.
    """

    def __init__(self, spec: EnvSpec, num_features: int, updates: int) -> None:
        super().__init__(spec, num_features, updates)
        inputs = self._num_outputs + spec.num_actions
        self.model = nn.Sequential(
            nn.Linear(inputs, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, self._num_outputs)
        )

    def loss(self, recorded: Unroll, rng: Generator) -> Tensor:
        """mean |e(s') - p(e(s), a)|^2 / k + the orthonormality of e."""
        time, unroll = draw_steps(recorded, rng)
        before = self.encoder(recorded.observation[time, unroll])
        with torch.no_grad():
            after = self.encoder(recorded.observation[time + 1, unroll])
        action = functional.one_hot(recorded.action[time, unroll], self._num_actions)
        guess = self.model(torch.cat([before, action.to(before.dtype)], dim=1))
        error = (after - guess).square().mean(dim=1).mean()
        return error + orthonormality(before) / self._num_outputs
