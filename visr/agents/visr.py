"""VISR (Hansen et al., 2020): phi infers w from states, psi sums phi, GPI acts. Algorithm 1 of the paper."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from visr.agents import n_step_q, visited
from visr.agents.draws import Draws
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


class Visr(nn.Module):
    """The networks of one agent and the losses that train them."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__()
        self.config, self.spec = config, spec
        self.phi = build.features(spec, _plan(config))
        self.psi = new_psi(config, spec)
        self.target_psi = copy.deepcopy(self.psi) if config.target_period > 1 else None
        if config.features == "random":
            self.phi.requires_grad_(False)
        self.draws = Draws() if config.task_distribution == "visited" else None

    def losses(self, unroll: Unroll) -> Losses:
        """loss_psi = sum_i (psi_i - y_i)^2 and loss_phi = -phi . w; psi's gradient stops at phi."""
        reached = (
            unroll.observation[1:] if self.config.cumulant == "next" else unroll.observation[:-1]
        )
        phi = self.phi(reached)
        reward = (phi * unroll.w).sum(dim=-1)
        phi_loss = -n_step_q.mean_over_steps(reward, unroll)
        if self.draws is not None:
            w = visited.relabelled(unroll.w, phi.detach(), self.config.task_mix, self.draws.next())
            unroll = unroll._replace(w=w)
        psi = _along(self.psi, unroll)
        with torch.no_grad():
            future = psi if self.target_psi is None else _along(self.target_psi, unroll)
            target = n_step_q.targets(future, phi, unroll, self.config.gamma, self.config.n_step)
        psi_loss = n_step_q.loss(psi, target, unroll)
        metrics = {
            "psi_loss": psi_loss.detach(),
            "intrinsic_reward": -phi_loss.detach(),
            "feature_concentration": phi.detach().mean(dim=(0, 1)).norm(),
        }
        return Losses(psi_loss, phi_loss, metrics)

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
    return build.successor_features(spec, _plan(config))


def _plan(config: AgentConfig) -> build.Plan:
    return build.Plan(
        num_features=config.num_features,
        torso=config.torso,
        core=config.core,
        hidden_sizes=config.hidden_sizes,
        centred=config.centred_features,
        normalise=config.normalise_observations,
    )


def _along(psi: SuccessorFeatures, unroll: Unroll) -> Tensor:
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
