"""Features of a step that learn from recorded steps: inverse dynamics, self-prediction, VISR's own phi."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from visr.errors import UserError
from visr.networks.transition_features.base import TransitionFeatures, WhitenedRows, of_unroll
from visr.networks.transition_features.encoder import (
    BATCH,
    Encoder,
    draw_steps,
    learn,
    orthonormality,
)
from visr.ops import sphere
from visr.types import EnvSpec, Transitions, Unroll

_WIDTH = 256


class LearnedFeatures(WhitenedRows):
    """1, the end of the episode, and whitened rows of an encoder e that learns in `fit`.

    A stage goes on with the weights of the stage before, on all that is recorded by then.
    """

    def __init__(self, spec: EnvSpec, num_features: int, num_outputs: int, updates: int) -> None:
        if num_features < 4:
            raise UserError(
                f"num_features = {num_features} is too small: two of them are 1 and the end of the "
                "episode; give at least 4."
            )
        super().__init__(num_features)
        self._num_updates = updates
        self.encoder = Encoder(spec.observation_space, num_outputs)

    @abstractmethod
    def loss(self, recorded: Unroll, rng: Generator) -> Tensor:
        """What the encoder minimises, on a random batch of recorded steps."""

    def prepare(self, recorded: Unroll) -> None:
        """Learn."""
        self.encoder.trunk.fit(of_unroll(recorded))
        learn(self, lambda rng: self.loss(recorded, rng), self._num_updates)


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


class UnitFeatures(TransitionFeatures):
    """sqrt(d) phi(s'), with phi(s') of unit length and log q(w | s') = phi(s') . w + const.

    phi minimises -phi(s') . w over recorded steps, w being the task that each unroll pursued. An unroll of
    random actions pursued none: its w is drawn from the sphere, as for a policy that ignores its task.
    """

    of_states = True

    def __init__(self, spec: EnvSpec, num_features: int, updates: int) -> None:
        super().__init__()
        self.num_features, self._num_updates = num_features, updates
        self.encoder = Encoder(spec.observation_space, num_features)

    @torch.no_grad()
    def fit(self, recorded: Unroll) -> None:
        """Learn phi."""
        self.encoder.trunk.fit(of_unroll(recorded))
        rng = torch.Generator().manual_seed(1)
        drawn = sphere.uniform(recorded.num_unrolls, d=self.num_features, generator=rng)
        length = recorded.w.norm(dim=1, keepdim=True)
        w = torch.where(length > 0, recorded.w / length.clamp(min=1e-9), drawn)

        def loss(rng: Generator) -> Tensor:
            time, unroll = draw_steps(recorded, rng, BATCH)
            phi = self.phi(recorded.observation[time + 1, unroll])
            return -(phi * w[unroll]).sum(dim=1).mean()

        learn(self, loss, self._num_updates)

    def forward(self, steps: Transitions) -> Tensor:
        """[N, d]; sqrt(d) makes a feature as large as those of other kinds."""
        parts = [self.phi(part) for part in steps.next_observation.split(8 * BATCH)]
        return torch.cat(parts) * math.sqrt(self.num_features)

    def phi(self, observation: Tensor) -> Tensor:
        """[N, ...] -> [N, d], of unit length"""
        return sphere.normalise(self.encoder(observation))
