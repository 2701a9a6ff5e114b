"""Curiosity (Burda et al., 2019): be where a model of the world errs.

Worlds are modelled in random features (RF) or in those that tell which action was taken (IDF).
Theirs learns by PPO; this one by the n-step rule that all agents here share.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from visr.agents import n_step_q
from visr.agents.base import Losses, Values
from visr.agents.plans import plan
from visr.config import AgentConfig
from visr.networks import build
from visr.networks.dynamics import ForwardModel, InverseModel
from visr.networks.torsos import Normaliser
from visr.types import EnvSpec, Unroll


class Curiosity(Values):
    """The end of an episode is no end to it; errors are divided by the running deviation of their sums."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__(config, spec)
        size, num_actions = config.curiosity_size, spec.num_actions
        self.phi = build.features(spec, plan(config, size, centred=False, unit=False))
        self.forward_model = ForwardModel(size, num_actions)
        learns = config.algorithm == "idf-curiosity"
        self.inverse_model = InverseModel(size, num_actions) if learns else None
        self.phi.requires_grad_(learns)
        self.sums = Normaliser(1)
        self.carried: Tensor
        self.register_buffer("carried", torch.zeros(()))

    def losses(self, unroll: Unroll) -> Losses:
        """c = |f(phi(s), a) - phi(s')|^2 / size / deviation; f minimises the same error."""
        phi = self.phi(unroll.observation)
        known = phi.detach()
        error = (self.forward_model(known[:-1], unroll.action) - known[1:]).square().mean(dim=-1)
        reward = error.detach() / self._deviation_of_sums(error.detach())
        fit = self.loss(reward.unsqueeze(-1), unroll, endless=True)
        metrics = {
            **fit.metrics,
            "intrinsic_reward": reward.mean(),
            "forward_error": error.detach().mean(),
        }
        phi_loss = error.mean()
        if self.inverse_model is not None:
            inverse = self._inverse_loss(phi, unroll)
            phi_loss, metrics = phi_loss + inverse, {**metrics, "inverse_loss": inverse.detach()}
        return Losses(fit.loss, phi_loss, metrics)

    def _inverse_loss(self, phi: Tensor, unroll: Unroll) -> Tensor:
        """-log p(a | s, s'), where an action was truly taken."""
        assert self.inverse_model is not None
        scores = self.inverse_model(phi[:-1], phi[1:]).flatten(0, 1)
        loss = functional.cross_entropy(scores, unroll.action.flatten(), reduction="none")
        return n_step_q.mean_over_steps(loss.unflatten(0, unroll.action.shape), unroll)

    @torch.no_grad()
    def _deviation_of_sums(self, error: Tensor) -> Tensor:
        """Of R_t = gamma R_(t-1) + error_t, over all that was learnt from; each unroll begins where,
        on average, the last ones ended.
        """
        total, sums = self.carried.expand(error.shape[1]), []
        for latest in error:
            total = self.config.gamma * total + latest
            sums.append(total)
        self.carried.copy_(total.mean())
        self.sums.note(torch.stack(sums).reshape(-1, 1).double())
        return self.sums.deviation().to(error.dtype)[0]

    def cumulant_parameters(self) -> list[nn.Parameter]:
        """The forward model's, and with inverse dynamics the features' and the inverse model's."""
        parts = [self.forward_model]
        if self.inverse_model is not None:
            parts += [self.phi, self.inverse_model]
        return [p for part in parts for p in part.parameters()]
