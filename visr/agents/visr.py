"""VISR (Hansen et al., 2020): phi infers w from states, psi sums phi, GPI acts. Algorithm 1 of the paper."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from visr.agents import n_step_q
from visr.agents.values import Losses, Values, plan
from visr.config import AgentConfig
from visr.networks import build
from visr.ops import sphere
from visr.types import EnvSpec, Unroll


class Visr(Values):
    """phi, psi and the losses that train them."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        phi = build.features(spec, plan(config, config.num_features))
        super().__init__(config, spec)
        self.phi = phi
        if config.features == "random":
            self.phi.requires_grad_(False)

    def losses(self, unroll: Unroll) -> Losses:
        """loss_psi = sum_i (psi_i - y_i)^2 and loss_phi = -phi . w; psi's gradient stops at phi."""
        reached = (
            unroll.observation[1:] if self.config.cumulant == "next" else unroll.observation[:-1]
        )
        phi = self.phi(reached)
        reward = (phi * unroll.w).sum(dim=-1)
        psi_loss = self.loss(phi.detach(), unroll)
        phi_loss = -n_step_q.mean_over_steps(reward, unroll)
        metrics = {
            "psi_loss": psi_loss.detach(),
            "intrinsic_reward": -phi_loss.detach(),
            "feature_concentration": phi.detach().mean(dim=(0, 1)).norm(),
        }
        return Losses(psi_loss, phi_loss, metrics)

    def cumulant_parameters(self) -> list[nn.Parameter]:
        """phi's, unless it stays as it began."""
        return [p for p in self.phi.parameters() if p.requires_grad]


def draw_policies(
    config: AgentConfig, w: Tensor, generator: Generator | None, gpi: bool | None = None
) -> Tensor:
    """The policies to consult for w: w itself and, with GPI, its sampled neighbours.

    w [..., features] -> [..., 1 + samples, features], or [..., 1, features] without GPI
    """
    own = w.unsqueeze(-2)
    if config.algorithm != "visr" or not (config.gpi if gpi is None else gpi):
        return own
    if config.gpi_distribution == "uniform":
        shape = (*w.shape[:-1], config.gpi_samples)
        neighbours = sphere.uniform(*shape, d=config.num_features, generator=generator)
    else:
        neighbours = sphere.vmf_sample(w, config.gpi_kappa, config.gpi_samples, generator)
    return torch.cat([own, neighbours], dim=-2)
