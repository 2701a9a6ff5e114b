"""VISR's own phi(s'), learned from recorded steps."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from visr.networks.transition_features.base import TransitionFeatures, of_unroll
from visr.networks.transition_features.encoder import BATCH, Encoder, draw_steps, learn
from visr.ops import sphere
from visr.types import EnvSpec, Transitions, Unroll


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
        self.encoder.fit(of_unroll(recorded))
        rng = torch.Generator().manual_seed(1)
        drawn = sphere.uniform(recorded.num_unrolls, d=self.num_features, generator=rng)
        length = recorded.w.norm(dim=1, keepdim=True)
        w = torch.where(length > 0, recorded.w / length.clamp(min=1e-9), drawn)

        def loss(rng: torch.Generator) -> Tensor:
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
