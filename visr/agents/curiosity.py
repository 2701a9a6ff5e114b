"""Curiosity (Burda et al., 2019): the reward is the error of a model that predicts the next features.

Features are random (RF) or trained to tell which action was taken (IDF, inverse dynamics features).
Burda et al. use PPO; this agent uses the n-step rule of all agents here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from visr import networks
from visr.agents.base import Losses
from visr.agents.nsq import NStepQ
from visr.agents.visr import psi_loss
from visr.config.fields import AgentConfig
from visr.networks.mlp_torsos import Normaliser, linear
from visr.types import EnvSpec, Unroll

_NUM_BLOCKS = 4


class Curiosity(NStepQ):
    """Returns go on across the ends of episodes; errors are divided by the deviation of their returns."""

    learns_features = False

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__(config, spec)
        size, num_actions = config.curiosity_size, spec.num_actions
        self.phi = networks.features(spec, config, size, unit=False, centred=False)
        self.forward_model = ForwardModel(size, num_actions)
        self.inverse_model = InverseModel(size, num_actions) if self.learns_features else None
        self.phi.requires_grad_(self.learns_features)
        self.sums = Normaliser(1)
        self.carried: Tensor
        self.register_buffer("carried", torch.zeros(()))

    def losses(self, unroll: Unroll) -> Losses:
        """c = |f(phi(s), a) - phi(s')|^2 / size / deviation; f minimises the same error.

        The inverse model minimises -log p(a | s, s').
        """
        phi = self.phi(unroll.observation)
        before, after = phi.detach()[:-1], phi.detach()[1:]
        error = (self.forward_model(before, unroll.action) - after).square().mean(dim=-1)
        reward = error.detach() / self._deviation_of_returns(error.detach())
        never = torch.zeros_like(unroll.is_reset)
        endless = unroll._replace(terminated=never, truncated=never, is_reset=never)
        known = self.predictions(unroll)
        loss, metrics = psi_loss(self, reward.unsqueeze(-1), endless, known)
        metrics["intrinsic_reward"] = reward.mean()
        metrics["forward_error"] = error.detach().mean()
        phi_loss = error.mean()
        if self.inverse_model is not None:
            scores = self.inverse_model(phi[:-1], phi[1:]).flatten(0, 1)
            log_loss = functional.cross_entropy(scores, unroll.action.flatten(), reduction="none")
            inverse = unroll.mean_over_steps(log_loss.unflatten(0, unroll.action.shape))
            phi_loss, metrics["inverse_loss"] = phi_loss + inverse, inverse.detach()
        return Losses(loss, phi_loss, metrics)

    @torch.no_grad()
    def _deviation_of_returns(self, error: Tensor) -> Tensor:
        """The running deviation of R_t = gamma R_(t-1) + error_t.

        Each unroll starts with the mean of the R that the last unrolls ended with.
        """
        total, sums = self.carried.expand(error.shape[1]), []
        for latest in error:
            total = self.config.gamma * total + latest
            sums.append(total)
        self.carried.copy_(total.mean())
        self.sums.update(torch.stack(sums).reshape(-1, 1).double())
        return self.sums.deviation().to(error.dtype)[0]

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """psi's, the forward model's, and with inverse dynamics also phi's and the inverse model's."""
        parts = [self.forward_model]
        if self.inverse_model is not None:
            parts += [self.phi, self.inverse_model]
        phi = [p for part in parts for p in part.parameters()]
        return {"psi": list(self.psi.parameters()), "phi": phi}


class InverseDynamicsCuriosity(Curiosity):
    """Curiosity in features that are trained to tell which action was taken."""

    learns_features = True


class ForwardModel(nn.Module):
    """phi(s), a -> phi(s'): a hidden layer, residual blocks, a linear layer; each reads the action."""

    def __init__(self, size: int, num_actions: int) -> None:
        super().__init__()
        self.num_actions = num_actions
        self.first = linear(size + num_actions, size)
        self.blocks = nn.ModuleList(_Block(size, num_actions) for _ in range(_NUM_BLOCKS))
        self.readout = linear(size + num_actions, size)

    def forward(self, phi: Tensor, action: Tensor) -> Tensor:
        """phi [..., size], action [...] -> [..., size]"""
        taken = functional.one_hot(action, self.num_actions).to(phi.dtype)
        hidden = functional.leaky_relu(self.first(torch.cat([phi, taken], dim=-1)))
        for block in self.blocks:
            hidden = block(hidden, taken)
        return self.readout(torch.cat([hidden, taken], dim=-1))


class _Block(nn.Module):
    """x + layer(layer(x, a), a)"""

    def __init__(self, size: int, num_actions: int) -> None:
        super().__init__()
        self.first = linear(size + num_actions, size)
        self.second = linear(size + num_actions, size)

    def forward(self, x: Tensor, taken: Tensor) -> Tensor:
        """x [..., size], taken [..., actions] -> [..., size]"""
        hidden = functional.leaky_relu(self.first(torch.cat([x, taken], dim=-1)))
        return x + self.second(torch.cat([hidden, taken], dim=-1))


class InverseModel(nn.Module):
    """phi(s), phi(s') -> a score for every action that may have led from s to s'."""

    def __init__(self, size: int, num_actions: int) -> None:
        super().__init__()
        self.hidden = linear(2 * size, size)
        self.readout = linear(size, num_actions)

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """[..., size], [..., size] -> [..., actions]"""
        return self.readout(self.hidden(torch.cat([before, after], dim=-1)).relu())
