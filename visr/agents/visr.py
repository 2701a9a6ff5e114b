"""VISR (Hansen et al., 2020): phi infers w from states, psi sums phi, GPI acts. Algorithm 1 of the paper."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from visr.agents import bonuses, n_step_q, objectives, visited
from visr.agents.draws import Draws
from visr.agents.plans import plan
from visr.config import AgentConfig
from visr.networks import build
from visr.networks.successor import SuccessorFeatures
from visr.ops import sphere
from visr.types import EnvSpec, Unroll


class Losses(NamedTuple):
    """What an update minimises, and what it reports."""

    psi: Tensor
    phi: Tensor
    metrics: dict[str, Tensor]
    bonus: Tensor | None = None
    """Of the model behind an intrinsic bonus."""

    @property
    def total(self) -> Tensor:
        """Their sum; no two of them share a parameter."""
        total = self.psi + self.phi
        return total if self.bonus is None else total + self.bonus


class Visr(nn.Module):
    """The networks of one agent and the losses that train them."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__()
        self.config, self.spec = config, spec
        self.phi = build.features(spec, plan(config))
        self.psi = new_psi(config, spec)
        self.target_psi = copy.deepcopy(self.psi) if config.target_period > 1 else None
        if config.features == "random":
            self.phi.requires_grad_(False)
        self.objective = objectives.build(config, spec)
        self.bonus = bonuses.build(config, spec)
        self.draws = Draws() if config.task_distribution == "visited" else None

    def losses(self, unroll: Unroll) -> Losses:
        """loss_psi = sum_i (psi_i - y_i)^2 and loss_phi = -phi . w; psi's gradient stops at phi."""
        cumulant, phi_loss = self.objective(self.phi, unroll)
        metrics = self._describe(cumulant, unroll)
        surprise = None if self.bonus is None else self.bonus(self.phi, unroll)
        off_policy = None
        if self.draws is not None:
            w, off_policy = visited.relabelled(unroll.w, cumulant, self.config.task_mix, self.draws)
            unroll = unroll._replace(w=w)
        if surprise is not None:  # along w, as |w| = 1: (c + b w) . w = c . w + b
            cumulant = cumulant + surprise.bonus.unsqueeze(-1) * unroll.w
            metrics["bonus"] = n_step_q.mean_over_steps(surprise.bonus, unroll)
        psi_loss = self._psi_loss(cumulant, unroll, off_policy)
        metrics = {"psi_loss": psi_loss.detach(), **metrics}
        return Losses(psi_loss, phi_loss, metrics, None if surprise is None else surprise.loss)

    def _psi_loss(self, cumulant: Tensor, unroll: Unroll, off_policy: Tensor | None) -> Tensor:
        """n-step Q-learning of the cumulant's sums; the target network bootstraps where there is one."""
        gamma, n = self.config.gamma, self.config.n_step
        psi = along(self.psi, unroll)
        with torch.no_grad():
            future = psi if self.target_psi is None else along(self.target_psi, unroll)
            target = n_step_q.targets(future, cumulant, unroll, gamma, n, off_policy)
        return n_step_q.loss(psi, target, unroll, self.config.value_weight)

    @staticmethod
    @torch.no_grad()
    def _describe(cumulant: Tensor, unroll: Unroll) -> dict[str, Tensor]:
        reward = (cumulant * unroll.w).sum(dim=-1)
        return {
            "intrinsic_reward": n_step_q.mean_over_steps(reward, unroll),
            "feature_concentration": cumulant.mean(dim=(0, 1)).norm(),
        }

    @property
    def device(self) -> torch.device:
        """Where the networks live."""
        return next(self.psi.parameters()).device

    @torch.no_grad()
    def refresh_target(self) -> None:
        """Copy psi into its target network."""
        if self.target_psi is not None:
            self.target_psi.load_state_dict(self.psi.state_dict())


def new_psi(config: AgentConfig, spec: EnvSpec) -> SuccessorFeatures:
    """psi as the configuration wants it, with fresh weights."""
    return build.successor_features(spec, plan(config))


def along(psi: SuccessorFeatures, unroll: Unroll) -> Tensor:
    """psi of every step of an unroll, [T + 1, B, actions, features]; a core starts from the stored memory."""
    hidden, _ = psi.trunk(unroll.observation, unroll.previous_actions, unroll.memory)
    return psi.heads(hidden, unroll.w)


def draw_policies(
    config: AgentConfig, w: Tensor, generator: Generator | None, gpi: bool | None = None
) -> Tensor:
    """The policies to consult for w: w itself and, with GPI, its sampled neighbours.

    w [..., features] -> [..., 1 + samples, features], or [..., 1, features] without GPI
    """
    own = w.unsqueeze(-2)
    if not (config.gpi if gpi is None else gpi):
        return own
    if config.gpi_distribution == "uniform":
        shape = (*w.shape[:-1], config.gpi_samples)
        neighbours = sphere.uniform(*shape, d=config.num_features, generator=generator)
    else:
        neighbours = sphere.vmf_sample(w, config.gpi_kappa, config.gpi_samples, generator)
    return torch.cat([own, neighbours], dim=-2)
