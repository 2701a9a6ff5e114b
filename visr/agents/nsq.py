"""Agents of one reward each: NSQ, Pos-Reward NSQ and uniformly random actions.

All use VISR's n-step rule, networks and optimiser, as in Hansen et al. (2020); only the cumulant differs.
"""

from __future__ import annotations

import copy

import torch
from torch import Generator, Tensor, nn

from visr import networks
from visr.agents.base import Agent, Losses
from visr.agents.visr import psi_loss
from visr.config.fields import AgentConfig
from visr.networks.successor import FoldedReadout
from visr.types import EnvSpec, Unroll


class NStepQ(Agent):
    """n-step Q-learning (Mnih et al., 2016) of a scalar cumulant: psi has one feature, w is just 1."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__(config, spec)
        self.psi = networks.successor_features(spec, config, 1, self.task_size)
        self.target_psi = copy.deepcopy(self.psi) if config.target_period > 1 else None

    @property
    def task_size(self) -> int:
        """1: there is one task."""
        return 1

    def sample_tasks(self, num_tasks: int, rng: Generator | None) -> Tensor:
        """Ones, [N, 1]."""
        return torch.ones(num_tasks, 1)

    def sample_policies(self, w: Tensor, rng: Generator | None, gpi: bool | None = None) -> Tensor:
        """w alone: [..., task size] -> [..., 1, task size]"""
        return w.unsqueeze(-2)

    def action_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        """Q(s, a): [N, hidden], [N, 1, task size] -> [N, actions]"""
        return self.psi.gpi_values(hidden, policies, readout)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Only psi's."""
        return {"psi": list(self.psi.parameters()), "phi": []}

    def q_losses(self, reward: Tensor, unroll: Unroll) -> Losses:
        """Q-learning of a given reward [T, B]."""
        loss, metrics = psi_loss(self, reward.unsqueeze(-1), unroll)
        return Losses(loss, loss.new_zeros(()), metrics)


class Nsq(NStepQ):
    """NSQ, the paper's supervised baseline: the only agent here that is trained on the reward."""

    uses_reward = True

    def losses(self, unroll: Unroll) -> Losses:
        """c = r clipped to [-1, 1]"""
        reward = unroll.reward.clamp(-1, 1)
        losses = self.q_losses(reward, unroll)
        losses.metrics["reward"] = unroll.mean_over_steps(reward)
        return losses


class PosNsq(NStepQ):
    """Pos-Reward NSQ: learns to stay alive."""

    def losses(self, unroll: Unroll) -> Losses:
        """c = `constant_reward`, at every step"""
        return self.q_losses(torch.full_like(unroll.reward, self.config.constant_reward), unroll)


class Uniform(NStepQ):
    """Uniformly random actions: its epsilon is 1, so that its values are never used."""

    def losses(self, unroll: Unroll) -> Losses:
        """c = 0"""
        return self.q_losses(torch.zeros_like(unroll.reward), unroll)
