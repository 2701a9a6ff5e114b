"""Noisy layers have the right variance, and the network is a distribution for every action."""

from __future__ import annotations

import math

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from visr.paper.baselines.rainbow import HESSEL
from visr.paper.baselines.rainbow.network import DuelingDistribution, NoisyLinear
from visr.types import EnvSpec

ATOMS = torch.linspace(-10, 10, 51)
NETWORK = ("auto", (16,), HESSEL)
"""The torso of images, the hidden sizes of all others, Rainbow's settings."""


def test_a_noisy_layer_has_the_mean_and_variance_of_its_parameters():
    torch.manual_seed(0)
    layer, x = NoisyLinear(6, 4, sigma=0.5), torch.randn(6)
    random = torch.Generator().manual_seed(1)
    drawn = []
    with torch.no_grad():
        for _ in range(8_000):
            layer.draw(random)
            drawn.append(layer(x))
        mean = layer.eval()(x)
    outputs = torch.stack(drawn)
    # E f(e)^2 = E |e| = sqrt(2 / pi); a weight's noise is a product of two, a bias's is one
    one = math.sqrt(2 / math.pi)
    variance = one**2 * layer.weight_sigma**2 @ x**2 + one * layer.bias_sigma**2
    assert torch.allclose(outputs.mean(dim=0), mean, atol=0.02)
    assert torch.allclose(outputs.var(dim=0), variance, rtol=0.1)


def test_a_noisy_layer_is_the_linear_layer_of_its_noisy_weights():
    torch.manual_seed(0)
    layer, x = NoisyLinear(5, 3, sigma=0.5), torch.randn(2, 5)
    layer.draw(torch.Generator().manual_seed(1))
    noise = torch.outer(layer.noise_out, layer.noise_in)
    weight = layer.weight + layer.weight_sigma * noise
    bias = layer.bias + layer.bias_sigma * layer.noise_out
    assert torch.allclose(layer(x), torch.nn.functional.linear(x, weight, bias), atol=1e-6)


def test_every_action_has_a_distribution_and_the_value_is_shared():
    torch.manual_seed(0)
    network = DuelingDistribution(EnvSpec(Discrete(5), 3), *NETWORK).eval()
    hidden = network.torso(torch.arange(5))
    log_probability = network(torch.arange(5))
    assert log_probability.shape == (5, 3, 51)
    assert torch.allclose(log_probability.exp().sum(dim=-1), torch.ones(5, 3))
    advantage = network.advantage(hidden).unflatten(1, (3, 51))
    logits = network.value(hidden)[:, None] + advantage - advantage.mean(dim=1, keepdim=True)
    assert torch.allclose(log_probability, logits.log_softmax(dim=-1))
    assert torch.allclose(network.values(log_probability), (log_probability.exp() * ATOMS).sum(-1))


def test_the_network_accepts_images_of_atari_and_of_minatar():
    for shape, brightest in (((4, 84, 84), 255), ((6, 10, 10), 1)):
        space = Box(0, brightest, shape, np.uint8)
        network = DuelingDistribution(EnvSpec(space, 4), *NETWORK)
        screens = torch.from_numpy(np.stack([space.sample(), space.sample()]))
        assert network(screens).shape == (2, 4, 51)
