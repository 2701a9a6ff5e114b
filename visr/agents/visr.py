"""VISR (Hansen et al., 2020): phi infers w from states, psi sums phi, GPI acts. Algorithm 1 of the paper."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from visr.agents import n_step_q
from visr.agents.base import Losses, Values
from visr.agents.draws import Draws
from visr.agents.extensions import bonuses, hindsight_tasks, objectives
from visr.agents.plans import plan
from visr.config import AgentConfig, InferenceConfig
from visr.errors import UserError
from visr.networks import build
from visr.ops import sphere
from visr.ops.regression import LEAST_SQUARES, RewardSums, fit_task
from visr.types import EnvSpec, Transitions, Unroll


class Visr(Values):
    """phi, psi and the losses that train them."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        phi = build.features(spec, plan(config))
        super().__init__(config, spec)
        self.phi = phi
        if config.features == "random":
            self.phi.requires_grad_(False)
        self.objective = objectives.build(config, spec)
        self.bonus = bonuses.build(config, spec)
        self.draws = Draws() if config.task_distribution == "visited" else None
        if config.task_steps and self.psi.memory_size:
            raise UserError(
                f"task_steps = {config.task_steps} is for a psi without memory; use --core none, or 0."
            )

    @property
    def task_size(self) -> int:
        """d, the length of w."""
        return self.config.num_features

    def sample_tasks(self, num_tasks: int, rng: Generator | None) -> Tensor:
        """w uniform on the unit sphere, [N, d]."""
        return sphere.uniform(num_tasks, d=self.config.num_features, generator=rng)

    def cumulant(self, steps: Transitions) -> Tensor:
        """phi(s'), [N, d]."""
        return self.phi(steps.next_observation)

    def task_from(
        self, c: Tensor, weight: Tensor, config: InferenceConfig = LEAST_SQUARES
    ) -> Tensor:
        """The unit w of a regression weight ~ c . w; of one goal with weight 1 it is phi(goal).

        c [N, d], weight [N] -> [d]
        """
        sums = RewardSums(c.shape[-1])
        sums.add(c.detach().cpu().numpy(), weight.detach().cpu().numpy())
        return torch.as_tensor(fit_task(sums, config).w, dtype=c.dtype, device=c.device)

    def losses(self, unroll: Unroll) -> Losses:
        """loss_psi = sum_i (psi_i - y_i)^2 and loss_phi = -phi . w; psi's gradient stops at phi."""
        cumulant, phi_loss = self.objective(self.phi, unroll)
        metrics = self._describe(cumulant, unroll)
        surprise = None if self.bonus is None else self.bonus(self.phi, unroll)
        bonus = None if surprise is None else surprise.bonus.unsqueeze(-1)
        off_policy = None
        if self.draws is not None:
            met, length = cumulant, self.config.task_steps or len(unroll.action)
            unroll, cumulant = (
                hindsight_tasks.pieces(unroll, length),
                hindsight_tasks.steps(cumulant, length),
            )
            bonus = None if bonus is None else hindsight_tasks.steps(bonus, length)
            w, off_policy = hindsight_tasks.relabelled(
                unroll.w, met, self.config.task_mix, self.draws
            )
            unroll = unroll._replace(w=w)
        if bonus is not None:  # along w, as |w| = 1: (c + b w) . w = c . w + b
            cumulant = cumulant + bonus * unroll.w
            metrics["bonus"] = n_step_q.mean_over_steps(bonus.squeeze(-1), unroll)
        fit = self.loss(cumulant, unroll, off_policy=off_policy)
        metrics = {**fit.metrics, **metrics}
        return Losses(fit.loss, phi_loss, metrics, None if surprise is None else surprise.loss)

    @staticmethod
    @torch.no_grad()
    def _describe(cumulant: Tensor, unroll: Unroll) -> dict[str, Tensor]:
        reward = (cumulant * unroll.w).sum(dim=-1)
        return {
            "intrinsic_reward": n_step_q.mean_over_steps(reward, unroll),
            "feature_concentration": cumulant.mean(dim=(0, 1)).norm(),
        }

    def cumulant_parameters(self) -> list[nn.Parameter]:
        """phi's and its objective's, unless phi stays as it began."""
        parts = [self.phi, self.objective] if self.config.features == "learned" else []
        return [p for part in parts for p in part.parameters() if p.requires_grad]


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
