"""Q-DIAYN: skills that can be told apart by the states they reach.

Eysenbach et al. (2019) with categorical skills, on the n-step rule as in Hansen et al. (2020).
"""

from __future__ import annotations

import math

from torch import nn

from visr.agents import n_step_q
from visr.agents.base import Losses, Values
from visr.agents.plans import plan
from visr.config import AgentConfig
from visr.networks import build
from visr.types import EnvSpec, Unroll


class Diayn(Values):
    """A scalar Q(s, a, z) and a discriminator q(z | s'): VISR's phi, with a softmax for the unit length."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__(config, spec)
        self.phi = build.features(spec, plan(config, config.num_skills, unit=False))

    def losses(self, unroll: Unroll) -> Losses:
        """c = log q(z | s') - log p(z), with p uniform; the discriminator minimises -log q(z | s')."""
        log_q = self.phi(unroll.observation[1:]).log_softmax(dim=-1)
        told = (log_q * unroll.w).sum(dim=-1)
        log_p = -math.log(self.config.num_skills) if self.config.diayn_subtract_prior else 0.0
        reward = told.detach() - log_p
        fit = self.loss(reward.unsqueeze(-1), unroll)
        phi_loss = -n_step_q.mean_over_steps(told, unroll)
        is_right = log_q.argmax(dim=-1) == unroll.w.argmax(dim=-1)
        metrics = {
            **fit.metrics,
            "intrinsic_reward": n_step_q.mean_over_steps(reward, unroll),
            "skills_told_apart": n_step_q.mean_over_steps(is_right.to(reward.dtype), unroll),
        }
        return Losses(fit.loss, phi_loss, metrics)

    def cumulant_parameters(self) -> list[nn.Parameter]:
        """The discriminator's."""
        return list(self.phi.parameters())
