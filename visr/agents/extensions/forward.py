"""Forward-model error (as in ICM; Pathak et al., 2017): new is what could not be foreseen in phi."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from visr.agents import n_step_q
from visr.agents.extensions.bonus import Bonus
from visr.config import AgentConfig
from visr.networks.torsos import linear
from visr.types import EnvSpec, Unroll

_SIZE = 128


class ForwardModel(Bonus):
    """raw = |model(phi(s), a) - phi(s')|^2; phi is read, not trained."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__(config)
        self._num_actions, d = spec.num_actions, config.num_features
        self.model = nn.Sequential(linear(d + spec.num_actions, _SIZE), nn.ReLU(), linear(_SIZE, d))

    def raw(self, phi: nn.Module, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """The error, which is also the loss."""
        with torch.no_grad():
            features = phi(unroll.observation)
        action = functional.one_hot(unroll.action, self._num_actions).to(features.dtype)
        foreseen = self.model(torch.cat([features[:-1], action], dim=-1))
        error = (foreseen - features[1:]).square().sum(dim=-1)
        return error, n_step_q.mean_over_steps(error, unroll)
