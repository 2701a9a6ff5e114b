"""Linear layers with learnt noise instead of random actions (Fortunato et al., 2018)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class NoisyLinear(nn.Module):
    """y = (mu + sigma * noise) x + the same for the bias; in `eval()` the noise is left out.

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
        # Drawn anew before every use, so no part of a checkpoint.
        self.register_buffer("noise_in", torch.zeros(num_inputs), persistent=False)
        self.register_buffer("noise_out", torch.zeros(num_outputs), persistent=False)

    def draw(self, random: torch.Generator) -> None:
        """New noise, until the next call."""
        drawn = torch.randn(len(self.noise_in) + len(self.noise_out), generator=random)
        noise = _shrunk(drawn).split([len(self.noise_in), len(self.noise_out)])
        self.noise_in.copy_(noise[0])
        self.noise_out.copy_(noise[1])

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] -> [..., outputs]"""
        y = functional.linear(x, self.weight, self.bias)
        if not self.training:
            return y
        # The noise's product is never written out: outputs' noise times (sigma (inputs' noise * x)).
        stirred = functional.linear(x * self.noise_in, self.weight_sigma, self.bias_sigma)
        return y + stirred * self.noise_out


def _shrunk(x: Tensor) -> Tensor:
    """f(x) = sign(x) sqrt(|x|)"""
    return x.sign() * x.abs().sqrt()
