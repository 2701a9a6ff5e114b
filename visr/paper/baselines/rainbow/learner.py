"""Rainbow's update: a double, distributional n-step target, and the divergence from it."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Adam

from visr.paper.baselines.rainbow import categorical
from visr.paper.baselines.rainbow.config import Recipe
from visr.paper.baselines.rainbow.memory import Batch
from visr.paper.baselines.rainbow.network import DuelingDistribution
from visr.training.learner import load_moments, moments, within


class Learner:
    """The network that learns, and the one that it learns from."""

    def __init__(self, network: DuelingDistribution, recipe: Recipe) -> None:
        self.network, self._recipe = network, recipe
        self._target = copy.deepcopy(network).requires_grad_(False)
        self._optimiser = Adam(
            network.parameters(), lr=recipe.learning_rate, eps=recipe.adam_epsilon, fused=True
        )
        self._device = network.atoms.device
        self.num_updates = 0

    def update(self, batch: Batch, random: torch.Generator) -> tuple[NDArray, dict[str, Tensor]]:
        """One step of Adam; the divergence of every sample [B], and what may be worth plotting."""
        self.network.draw_noise(random)
        self._target.draw_noise(random)
        there = {k: torch.as_tensor(v).to(self._device) for k, v in batch._asdict().items()}
        target = self._goal(there["next_observation"], there["reward"], there["discount"])
        predicted = _of(self.network(there["observation"]), there["action"])
        divergence = categorical.divergence(target, predicted)
        loss = (there["weight"] * divergence).mean()
        self._optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self._recipe.longest_gradient)
        self._optimiser.step()
        self.num_updates += 1
        if self.num_updates % self._recipe.target_period == 0:
            self._target.load_state_dict(self.network.state_dict())
        told = divergence.detach()
        value = self.network.values(predicted.detach()).mean()
        return told.cpu().numpy().astype(np.float64), {"loss": told.mean(), "value": value}

    @torch.no_grad()
    def _goal(self, observation: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """The target network's distribution for the action that the learning one prefers: [B, atoms]"""
        best = self.network.values(self.network(observation)).argmax(dim=-1)
        following = _of(self._target(observation), best).exp()
        return categorical.project(following, self.network.atoms, reward, discount)

    def state(self) -> dict[str, Tensor]:
        """Weights of both networks and what Adam remembers."""
        tensors = {f"network.{k}": v for k, v in self.network.state_dict().items()}
        tensors |= {f"target.{k}": v for k, v in self._target.state_dict().items()}
        return tensors | {f"adam.{k}": v for k, v in moments(self._optimiser).items()}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `state`."""
        self.network.load_state_dict(within(tensors, "network."))
        self._target.load_state_dict(within(tensors, "target."))
        load_moments(self._optimiser, within(tensors, "adam."))


def _of(log_probability: Tensor, action: Tensor) -> Tensor:
    """[B, actions, atoms], [B] -> [B, atoms]"""
    return log_probability[torch.arange(len(action), device=action.device), action]
