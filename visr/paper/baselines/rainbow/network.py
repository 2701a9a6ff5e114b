"""Rainbow's network: a distribution of returns per action, as a value and its advantages, all noisy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from gymnasium import spaces
from torch import Tensor, nn

from visr.networks import images
from visr.networks.torsos import MlpTorso
from visr.paper.baselines.rainbow.noisy import NoisyLinear
from visr.types import EnvSpec


@dataclass(frozen=True)
class Plan:
    """How large a network to build."""

    torso: str
    """That of images."""
    hidden_sizes: tuple[int, ...]
    """Hidden layers in front of the streams, where observations are no images."""
    hidden_size: int
    """Units of each stream's one hidden layer, or as few as the torso's last layer has."""
    sigma: float
    num_atoms: int
    largest_return: float


class DuelingDistribution(nn.Module):
    """log p(z | s, a) on fixed atoms z; value and advantages are added before the softmax."""

    def __init__(self, spec: EnvSpec, plan: Plan) -> None:
        super().__init__()
        atoms = torch.linspace(-plan.largest_return, plan.largest_return, plan.num_atoms)
        self.num_actions = spec.num_actions
        self.atoms: Tensor
        self.register_buffer("atoms", atoms, persistent=False)
        self.torso, num_inputs, widest = _torso(spec.observation_space, plan)
        sizes = num_inputs, min(plan.hidden_size, widest)
        self.value = _stream(*sizes, plan.num_atoms, plan.sigma)
        self.advantage = _stream(*sizes, plan.num_atoms * spec.num_actions, plan.sigma)
        self._noisy = [layer for layer in self.modules() if isinstance(layer, NoisyLinear)]

    def forward(self, observation: Tensor) -> Tensor:
        """observation [B, ...] -> log probabilities [B, actions, atoms]"""
        hidden = self.torso(observation)
        value = self.value(hidden).unsqueeze(1)
        advantage = self.advantage(hidden).unflatten(1, (self.num_actions, -1))
        return (value + advantage - advantage.mean(dim=1, keepdim=True)).log_softmax(dim=-1)

    def values(self, log_probability: Tensor) -> Tensor:
        """Expected returns: [..., atoms] -> [...]"""
        return log_probability.exp() @ self.atoms

    def draw_noise(self, random: torch.Generator) -> None:
        """New noise in every layer that has some."""
        for layer in self._noisy:
            layer.draw(random)


class Convolutions(nn.Module):
    """An image torso without its linear layer, whose part the noisy streams take over."""

    def __init__(self, torso: images.ImageTorso) -> None:
        super().__init__()
        self.body, self._brightest = torso.body, torso.brightest

    def forward(self, image: Tensor) -> Tensor:
        """[B, C, H, W] uint8 -> [B, size]"""
        return self.body(image.float() / self._brightest).relu().flatten(1)


def _torso(space: spaces.Space, plan: Plan) -> tuple[nn.Module, int, int]:
    """The torso, how much it says, and how wide layers behind it are at most."""
    if not images.is_image(space):
        return MlpTorso(space, plan.hidden_sizes), plan.hidden_sizes[-1], plan.hidden_sizes[-1]
    assert isinstance(space, spaces.Box)
    name = plan.torso
    if name == "auto":
        name = "nature" if min(space.shape[1:]) >= 36 else "minatar"
    torso = images.build(name, space.shape, brightest=max(int(space.high.max()), 1))
    return Convolutions(torso), torso.readout.in_features, torso.size


def _stream(num_inputs: int, width: int, num_outputs: int, sigma: float) -> nn.Sequential:
    first, last = NoisyLinear(num_inputs, width, sigma), NoisyLinear(width, num_outputs, sigma)
    return nn.Sequential(first, nn.ReLU(), last)
