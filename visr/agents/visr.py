"""VISR (Hansen et al., 2020): Algorithm 1."""

from __future__ import annotations

import copy

import torch
from torch import Generator, Tensor, nn

from visr import networks
from visr.agents.base import Agent, BehaviourModel, Losses, psi_metrics
from visr.config.fields import AgentConfig
from visr.networks.successor import FoldedReadout
from visr.ops import returns, sphere
from visr.ops.look_up import look_up
from visr.types import EnvSpec, Transitions, Unroll


class Visr(BehaviourModel):
    """phi(s): unit features with log q(w | s) = phi(s) . w + const.

    psi(s, a, w): expected discounted sums of phi under the policy of w, and its target network.
    """

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__(config, spec)
        self.phi = networks.features(spec, config).requires_grad_(config.features == "learned")
        self.psi = networks.successor_features(spec, config, config.num_features, self.task_size)
        self.target_psi = copy.deepcopy(self.psi) if config.target_period > 1 else None

    # Acting: a new w for every unroll; epsilon-greedy in max_i psi(s, a, w_i) . w.

    @property
    def task_size(self) -> int:
        """d, the length of w and of phi."""
        return self.config.num_features

    def sample_tasks(self, num_tasks: int, rng: Generator | None) -> Tensor:
        """w uniform on the unit sphere, [N, d]."""
        return sphere.uniform(num_tasks, d=self.config.num_features, generator=rng)

    def sample_policies(self, w: Tensor, rng: Generator | None, gpi: bool | None = None) -> Tensor:
        """w and samples of vMF(w, kappa): [..., d] -> [..., 1 + samples, d]; without GPI w alone."""
        if not (self.config.gpi if gpi is None else gpi):
            return w.unsqueeze(-2)
        near = sphere.vmf_sample(w, self.config.gpi_kappa, self.config.gpi_samples, rng)
        return sphere.joined(w, near)

    def action_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        """max_i psi(s, a, w_i) . w, with readout = psi.fold(w): [N, hidden], [N, P, d] -> [N, actions]"""
        return self.psi.gpi_values(hidden, policies, readout)

    # Learning: from unrolls [T, B], each under one w.

    def losses(self, unroll: Unroll) -> Losses:
        """phi learns to infer w; psi learns sums of phi; the gradient of psi's loss stops at phi."""
        loss_phi, phi = self.phi_loss(unroll)
        loss_psi, metrics = psi_loss(self, phi.detach(), unroll)
        metrics["intrinsic_reward"] = -loss_phi.detach()
        metrics["feature_concentration"] = phi.detach().mean(dim=(0, 1)).norm()
        return Losses(loss_psi, loss_phi, metrics)

    def phi_loss(self, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """-log q(w | s') = -phi(s') . w, averaged; and the cumulant phi(s') [T, B, d]."""
        phi = self.phi(unroll.observation[1:])
        reward = (phi * unroll.w).sum(dim=-1)
        return -unroll.mean_over_steps(reward), phi

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """psi's, and phi's unless it stays as initialised (RF VISR)."""
        phi = [p for p in self.phi.parameters() if p.requires_grad]
        return {"psi": list(self.psi.parameters()), "phi": phi}

    # Task inference: `task_from` is the regression r ~ phi(s') . w.

    def cumulant(self, steps: Transitions) -> Tensor:
        """phi(s'), [N, d]."""
        return self.phi(steps.next_observation)


def psi_loss(
    agent: Agent, cumulant: Tensor, unroll: Unroll, known: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """sum_i (psi_i(s_t, a_t, w) - y_i)^2, averaged, and metrics.  NSQ and DIAYN: another cumulant."""
    psi, psi_next = known or agent.predictions(unroll)
    error = n_step_error(psi, psi_next, cumulant, unroll, agent.config.gamma, agent.config.n_step)
    loss = unroll.mean_over_steps(error.square().sum(dim=-1))
    return loss, psi_metrics(loss, psi)


def n_step_error(
    psi: Tensor, psi_next: Tensor, cumulant: Tensor, unroll: Unroll, gamma: float, n: int
) -> Tensor:
    """psi(s_t, a_t, w) - y_t, [T, B, d];  y_t = sum_k gamma^k c_{t+k} + gamma^n psi'(s_{t+n}, a*, w)."""
    with torch.no_grad():
        value = select(psi_next, greedy_actions(psi_next, unroll.w))
        discount = gamma * (~unroll.terminated).to(cumulant.dtype)
        y = returns.n_step(cumulant, discount, value, n, cut=unroll.truncated)
    return select(psi, unroll.action) - y


def greedy_actions(psi: Tensor, w: Tensor) -> Tensor:
    """a* = argmax_a psi(s, a, w) . w: [..., actions, d] -> [...]"""
    # one row per action, because products with short repeated rows are slow
    weight = w.unsqueeze(-2).expand(*w.shape[:-1], psi.shape[-2], -1).contiguous()
    return (psi * weight).sum(dim=-1).argmax(dim=-1)


def select(psi: Tensor, action: Tensor) -> Tensor:
    """psi(s, a) of one action in the first steps: [T, ..., actions, d], [up to T, ...] -> [..., d]"""
    first = torch.arange(action.numel(), device=action.device).view(action.shape)
    return look_up(psi.flatten(0, -2), first * psi.shape[-2] + action)
