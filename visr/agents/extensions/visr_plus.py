"""VISR with what goes beyond the paper: objectives for phi, exploration bonuses, tasks for psi."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from visr.agents.base import Losses, psi_metrics
from visr.agents.extensions import hindsight_tasks
from visr.agents.extensions.bonuses import ParticleBonus, RndBonus
from visr.agents.extensions.objectives import Wasserstein, laplacian_loss
from visr.agents.visr import Visr, n_step_error
from visr.config.fields import AgentConfig
from visr.errors import UserError
from visr.ops import sphere
from visr.types import EnvSpec, Unroll


class VisrPlus(Visr):
    """With all settings at their defaults it computes what `Visr` computes."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__(config, spec)
        self.phi.unit = config.objective == "visr"
        self.objective = Wasserstein() if config.objective == "metra" else None
        self.bonus = None
        if config.bonus == "rnd":
            self.bonus = RndBonus(config, spec)
        elif config.bonus == "particles":
            self.bonus = ParticleBonus(config)
        uses_visited = config.task_distribution == "visited"
        self.draws = hindsight_tasks.SeededGenerators() if uses_visited else None
        if config.task_steps and self.psi.memory_size:
            raise UserError(
                f"task_steps = {config.task_steps} is for a psi without memory; use --core none, or 0."
            )

    def sample_policies(self, w: Tensor, rng: Generator | None, gpi: bool | None = None) -> Tensor:
        """As in VISR, or with neighbours uniform on the sphere, as in the authors' notebook."""
        uses_gpi = self.config.gpi if gpi is None else gpi
        if not uses_gpi or self.config.gpi_distribution == "vmf":
            return super().sample_policies(w, rng, gpi)
        shape = (*w.shape[:-1], self.config.gpi_samples)
        others = sphere.uniform(*shape, d=self.task_size, generator=rng)
        return torch.cat([w.unsqueeze(-2), others], dim=-2)

    def losses(self, unroll: Unroll) -> Losses:
        """VISR's losses; a bonus b joins the cumulant as b w, and psi may learn other tasks than w."""
        loss_phi, learnt = self.phi_loss(unroll)
        phi = cumulant = learnt.detach()
        own = {
            "intrinsic_reward": unroll.mean_over_steps((phi * unroll.w).sum(dim=-1)),
            "feature_concentration": phi.mean(dim=(0, 1)).norm(),
        }
        bonus, loss_bonus, off_policy = None, None, None
        if self.bonus is not None:
            bonus, loss_bonus = self.bonus(self.phi, unroll)
        if self.draws is not None:
            length = self.config.task_steps or len(unroll.action)
            unroll = hindsight_tasks.split_unroll(unroll, length)
            cumulant = hindsight_tasks.split_steps(cumulant, length)
            bonus = None if bonus is None else hindsight_tasks.split_steps(bonus, length)
            rng, mix = self.draws.next(), self.config.task_mix
            w, off_policy = hindsight_tasks.replace_tasks(unroll.w, phi, mix, rng)
            unroll = unroll._replace(w=w)
        if bonus is not None:  # |w| = 1, so (c + b w) . w = c . w + b
            cumulant = cumulant + bonus.unsqueeze(-1) * unroll.w
            own["bonus"] = unroll.mean_over_steps(bonus)
        loss_psi, metrics = self._psi_loss(cumulant, unroll, off_policy)
        return Losses(loss_psi, loss_phi, metrics | own, loss_bonus)

    def cumulants(self, unroll: Unroll) -> Tensor:
        """What psi sums, at every step of unrolls: [T, B, d]."""
        return self.phi_loss(unroll)[1]

    def phi_loss(self, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """The objective's loss and its cumulant [T, B, d]."""
        if self.objective is not None:
            return self.objective(self.phi(unroll.observation), unroll)
        part = slice(1, None) if self.config.cumulant == "next" else slice(None, -1)
        if self.config.objective == "laplacian":
            phi = self.phi(unroll.observation)
            return laplacian_loss(phi, unroll), phi[part]
        phi = self.phi(unroll.observation[part])
        return -unroll.mean_over_steps((phi * unroll.w).sum(dim=-1)), phi

    def _psi_loss(
        self, cumulant: Tensor, unroll: Unroll, off_policy: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """psi's loss plus `value_weight` times the squared error along w, which w's own policy depends on."""
        psi, psi_next = self.predictions(unroll)
        if off_policy is not None and self.config.n_step > 1:
            unroll = hindsight_tasks.cut_off_policy(unroll, psi_next, off_policy)
        gamma, n = self.config.gamma, self.config.n_step
        error = n_step_error(psi, psi_next, cumulant, unroll, gamma, n)
        squared = error.square().sum(dim=-1)
        if self.config.value_weight:
            along_w = (error * unroll.w).sum(dim=-1)
            squared = squared + self.config.value_weight * along_w.square()
        loss = unroll.mean_over_steps(squared)
        return loss, psi_metrics(loss, psi)

    def set_bonus_share(self, share: float) -> None:
        """Scale the bonus by this share."""
        if self.bonus is not None:
            self.bonus.share = share

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """VISR's; the objective's own learn with phi's, and the bonus's in a group of their own."""
        groups = super().parameter_groups()
        if self.objective is not None:
            groups["phi"] += self.objective.parameters()
        if self.bonus is not None:
            groups["bonus"] = [p for p in self.bonus.parameters() if p.requires_grad]
        return groups
