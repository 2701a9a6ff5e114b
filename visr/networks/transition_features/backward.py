"""B(s') of the forward-backward representation: features that the agent learns together with F."""

from __future__ import annotations

import torch
from gymnasium import spaces
from torch import Tensor, nn

from visr.networks.transition_features.base import TransitionFeatures, ended, of_unroll
from visr.networks.transition_features.encoder import Encoder
from visr.types import Transitions, Unroll


class BackwardFeatures(TransitionFeatures):
    """B(s'): an encoder of s', and a vector that is added where the episode ends."""

    def __init__(self, space: spaces.Space, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features
        self.encoder = Encoder(space, num_features)
        self.at_end = nn.Parameter(torch.randn(num_features))

    def fit(self, recorded: Unroll) -> None:
        """Take the statistics of observations; the agent learns the rest."""
        self.encoder.fit(of_unroll(recorded))

    def forward(self, steps: Transitions) -> Tensor:
        """[N, d]"""
        return self.encoder(steps.next_observation) + ended(steps)[:, None] * self.at_end
