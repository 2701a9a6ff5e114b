"""Q-DIAYN (Eysenbach et al., 2019): skills z that can be told apart by the states they reach.

Skills are categorical, learnt by the n-step rule, as in Hansen et al. (2020).
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from visr import networks
from visr.agents.base import Losses
from visr.agents.nsq import NStepQ
from visr.config.fields import AgentConfig
from visr.types import EnvSpec, Unroll


class Diayn(NStepQ):
    """A scalar Q(s, a, z) and a discriminator q(z | s'), the softmax of phi(s')."""

    adapts = True

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__(config, spec)
        self.phi = networks.features(spec, config, config.num_skills, unit=False)

    @property
    def task_size(self) -> int:
        """The number of skills: a task is a one-hot z."""
        return self.config.num_skills

    def sample_tasks(self, num_tasks: int, rng: Generator | None) -> Tensor:
        """Uniformly random skills, one-hot [N, skills]."""
        skills = torch.randint(self.config.num_skills, (num_tasks,), generator=rng)
        return functional.one_hot(skills, self.config.num_skills).float()

    def losses(self, unroll: Unroll) -> Losses:
        """c = log q(z | s') - log p(z), with p uniform; the discriminator minimises -log q(z | s')."""
        log_q = self.phi(unroll.observation[1:]).log_softmax(dim=-1)
        log_q_of_z = (log_q * unroll.w).sum(dim=-1)
        log_p = -math.log(self.config.num_skills) if self.config.diayn_subtract_prior else 0.0
        reward = log_q_of_z.detach() - log_p
        loss, _, metrics, _ = self.q_losses(reward, unroll)
        is_right = log_q.argmax(dim=-1) == unroll.w.argmax(dim=-1)
        metrics["intrinsic_reward"] = unroll.mean_over_steps(reward)
        metrics["skills_told_apart"] = unroll.mean_over_steps(is_right.to(reward.dtype))
        return Losses(loss, -unroll.mean_over_steps(log_q_of_z), metrics)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """psi's and the discriminator's."""
        return {"psi": list(self.psi.parameters()), "phi": list(self.phi.parameters())}
