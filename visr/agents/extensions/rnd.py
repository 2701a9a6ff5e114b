"""Random network distillation (Burda et al., 2019): new is what a network cannot yet say of a random one."""

from __future__ import annotations

import dataclasses

from torch import Tensor, nn

from visr.agents import n_step_q
from visr.agents.extensions.bonus import Bonus
from visr.agents.plans import plan
from visr.config import AgentConfig
from visr.networks import build
from visr.types import EnvSpec, Unroll

_SIZE = 32


class Distillation(Bonus):
    """raw = |predictor(s') - target(s')|^2, the target random and fixed."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__(config)
        shape = dataclasses.replace(plan(config), num_features=_SIZE, centred=False, unit=False)
        self.target = build.features(spec, shape).requires_grad_(False)
        self.predictor = build.features(spec, shape)

    def raw(self, phi: nn.Module, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """The error, which is also the loss."""
        reached = unroll.observation[1:]
        error = (self.predictor(reached) - self.target(reached).detach()).square().mean(dim=-1)
        return error, n_step_q.mean_over_steps(error, unroll)
