"""Rainbow's network: a distribution over returns per action, from noisy value and advantage streams."""

from __future__ import annotations

import math

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from visr.config import RunConfig
from visr.networks import conv_torsos
from visr.networks.mlp_torsos import MlpTorso
from visr.ops import derived_seed
from visr.paper.baselines.rainbow import RainbowConfig, rainbow_config
from visr.training import devices
from visr.types import EnvSpec


class NoisyLinear(nn.Module):
    """y = (mu + sigma * noise) x, and the same for the bias (Fortunato et al., 2018); no noise in `eval()`.

    Noise is factorised: that of weight (j, i) is f(e_j) f(e_i), that of bias j is f(e_j).
    """

    def __init__(self, num_inputs: int, num_outputs: int, sigma: float) -> None:
        super().__init__()
        bound = 1 / math.sqrt(num_inputs)
        self.weight = nn.Parameter(torch.empty(num_outputs, num_inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(num_outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full_like(self.weight, sigma * bound))
        self.bias_sigma = nn.Parameter(torch.full_like(self.bias, sigma * bound))
        self.noise_in: Tensor
        self.noise_out: Tensor
        # New noise is drawn before every use, so checkpoints leave it out.
        self.register_buffer("noise_in", torch.zeros(num_inputs), persistent=False)
        self.register_buffer("noise_out", torch.zeros(num_outputs), persistent=False)

    def draw(self, rng: torch.Generator) -> None:
        """Draw new noise: f(x) = sign(x) sqrt(|x|) of normal numbers."""
        drawn = torch.randn(len(self.noise_in) + len(self.noise_out), generator=rng)
        noise = drawn.sign() * drawn.abs().sqrt()
        noise_in, noise_out = noise.split([len(self.noise_in), len(self.noise_out)])
        self.noise_in.copy_(noise_in)
        self.noise_out.copy_(noise_out)

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] -> [..., outputs]"""
        y = functional.linear(x, self.weight, self.bias)
        if not self.training:
            return y
        # Equal to a weight of sigma * f(e_j) f(e_i), without building that matrix.
        noisy = functional.linear(x * self.noise_in, self.weight_sigma, self.bias_sigma)
        return y + noisy * self.noise_out


class DuelingDistribution(nn.Module):
    """log p(z | s, a) on fixed atoms z; value and advantages are added before the softmax."""

    def __init__(
        self, spec: EnvSpec, torso: str, hidden_sizes: tuple[int, ...], config: RainbowConfig
    ) -> None:
        """`torso` is used for images, `hidden_sizes` for all other observations."""
        super().__init__()
        largest, num_atoms = config.largest_return, config.num_atoms
        self.num_actions = spec.num_actions
        self.atoms: Tensor
        self.register_buffer(
            "atoms", torch.linspace(-largest, largest, num_atoms), persistent=False
        )
        self.torso, num_inputs, widest = _torso(spec.observation_space, torso, hidden_sizes)
        sizes = num_inputs, min(config.hidden_size, widest)
        self.value = _stream(*sizes, num_atoms, config.sigma)
        self.advantage = _stream(*sizes, num_atoms * spec.num_actions, config.sigma)
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

    def draw_noise(self, rng: torch.Generator) -> None:
        """Draw new noise in every noisy layer."""
        for layer in self._noisy:
            layer.draw(rng)


class Convolutions(nn.Module):
    """An image torso without its linear layer, which the noisy streams replace."""

    def __init__(self, torso: conv_torsos.ImageTorso) -> None:
        super().__init__()
        self.body, self._brightest = torso.body, torso.brightest

    def forward(self, image: Tensor) -> Tensor:
        """[B, C, H, W] uint8 -> [B, size]"""
        return self.body(image.float() / self._brightest).relu().flatten(1)


def new_network(config: RunConfig, spec: EnvSpec) -> DuelingDistribution:
    """The network of a run, with initial weights that depend on nothing but the seed."""
    agent = config.agent
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(config.training.seed, 0))
        network = DuelingDistribution(spec, agent.torso, agent.hidden_sizes, rainbow_config(config))
    return devices.prepared(network, config.training)


def _torso(
    space: spaces.Space, name: str, hidden_sizes: tuple[int, ...]
) -> tuple[nn.Module, int, int]:
    """The torso, its output size, and the largest width of the layers after it."""
    if not conv_torsos.is_image(space):
        return MlpTorso(space, hidden_sizes), hidden_sizes[-1], hidden_sizes[-1]
    assert isinstance(space, spaces.Box)
    if name == "auto":
        name = "nature" if min(space.shape[1:]) >= 36 else "minatar"
    torso = conv_torsos.build(name, space.shape, brightest=max(int(space.high.max()), 1))
    return Convolutions(torso), torso.readout.in_features, torso.size


def _stream(num_inputs: int, width: int, num_outputs: int, sigma: float) -> nn.Sequential:
    first, last = NoisyLinear(num_inputs, width, sigma), NoisyLinear(width, num_outputs, sigma)
    return nn.Sequential(first, nn.ReLU(), last)
