"""SimPLe's stochastic discrete model: a convolutional encoder-decoder with action and latent bits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from visr.paper.baselines.simple import SimpleConfig
from visr.paper.baselines.simple.frame_distributions import FrameDistribution

_HIDDEN = 128
"""Units of the posterior, of the prior and of the reward head."""
_POSTERIOR_WEIGHT = 0.1
"""Of the KL, for the posterior."""
REWARDS = (-1.0, 0.0, 1.0)
"""Clipped rewards, one class each."""


class Outputs(NamedTuple):
    """What the network predicts for one step."""

    logits: Tensor
    """[N, outputs, H, W]: of the next frame"""
    reward: Tensor
    """[N, 3]: logits of the rewards -1, 0 and 1"""
    end: Tensor
    """[N]: logit of the end of the episode"""
    kl: Tensor
    """[N]: KL(posterior || prior) of the bits in nats; 0 if they come from the prior"""


class AutoregressivePrior(nn.Module):
    """p(b | context) = prod_i p(b_i | b_1 .. b_{i-1}, context) (NADE, Larochelle and Murray, 2011).

    h_i = relu(context + sum_{j<i} b_j V_j), logit_i = U_i . h_i + c_i
    """

    def __init__(self, num_bits: int, hidden: int) -> None:
        super().__init__()
        self.num_bits = num_bits
        self.into = nn.Parameter(torch.randn(num_bits, hidden) * 0.1)
        self.out = nn.Parameter(torch.randn(num_bits, hidden) * 0.1)
        self.bias = nn.Parameter(torch.zeros(num_bits))

    def forward(self, context: Tensor, bits: Tensor) -> Tensor:
        """Logits of all bits, given the bits before each: [N, hidden], [N, bits] -> [N, bits]"""
        added = bits.unsqueeze(-1) * self.into
        before = added.cumsum(dim=1) - added
        hidden = (context.unsqueeze(1) + before).relu()
        return (hidden * self.out).sum(dim=-1) + self.bias

    def sample(self, context: Tensor, rng: torch.Generator) -> Tensor:
        """Draw the bits one after another: [N, hidden] -> [N, bits]"""
        uniform = torch.rand(len(context), self.num_bits, generator=rng).to(context.device)
        bits = []
        for i in range(self.num_bits):
            logit = context.relu() @ self.out[i] + self.bias[i]
            bits.append((uniform[:, i] < logit.sigmoid()).float())
            context = context + bits[-1].unsqueeze(-1) * self.into[i]
        return torch.stack(bits, dim=1)


class WorldNetwork(nn.Module):
    """Predicts the next frame, the reward and the end of the episode from the last frames and an action.

    The bits stand for what these do not determine. The posterior sees the next frame and is used in
    training, where the gradient passes the rounded bits unchanged (straight-through). The prior does not.
    """

    def __init__(
        self,
        shape: Sequence[int],
        num_actions: int,
        distribution: FrameDistribution,
        config: SimpleConfig,
        precision: torch.dtype = torch.float32,
    ) -> None:
        """`shape` is that of one frame, [C, H, W]."""
        super().__init__()
        channels, *size = shape
        self.distribution, self.num_actions, self._precision = distribution, num_actions, precision
        first, *others = widths = config.widths
        self._sizes = _halved(size, len(others))
        self.stem = _conv(channels * config.history, first)
        self.position = nn.Parameter(torch.zeros(1, first, *size))
        self.down = nn.ModuleList(_conv(a, b, 2) for a, b in zip(widths, others, strict=False))
        flat = widths[-1] * self._sizes[-1][0] * self._sizes[-1][1]
        given = num_actions + config.num_bits
        self.inject = nn.Linear(given, flat)
        self.middle = _conv(widths[-1], widths[-1])
        self.narrow = nn.ModuleList(
            nn.Conv2d(b, a, 1) for a, b in zip(widths, others, strict=False)
        )
        self.modulate = nn.ModuleList(nn.Linear(given, 2 * width) for width in widths[:-1])
        self.refine = nn.ModuleList(_conv(width, width) for width in widths[:-1])
        self.frame = _conv(first, distribution.num_outputs)
        self.outcome = nn.Sequential(
            nn.Linear(flat + 2 * first, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, len(REWARDS) + 1)
        )
        self.compare = nn.Sequential(
            *_downward((2 * channels, *(min(width, 32) for width in widths[1:])))
        )
        compared = min(widths[-1], 32) * flat // widths[-1]
        self.posterior = nn.Sequential(
            nn.Linear(compared + num_actions, _HIDDEN),
            nn.ReLU(),
            nn.Linear(_HIDDEN, config.num_bits),
        )
        self.context = nn.Linear(flat + num_actions, _HIDDEN)
        self.prior = AutoregressivePrior(config.num_bits, _HIDDEN)

    def forward(
        self,
        history: Tensor,
        action: Tensor,
        rng: torch.Generator,
        next_frame: Tensor | None = None,
    ) -> Outputs:
        """history [N, K, C, H, W] uint8, action [N]; with the next frame [N, C, H, W], use the posterior."""
        with torch.autocast(
            history.device.type, self._precision, enabled=self._precision != torch.float32
        ):
            return self._forward(history, action, rng, next_frame)

    def _forward(
        self, history: Tensor, action: Tensor, rng: torch.Generator, next_frame: Tensor | None
    ) -> Outputs:
        chosen = functional.one_hot(action, self.num_actions).float()
        skips = self._encode(history)
        context = self.context(torch.cat([skips[-1].flatten(1), chosen], dim=1)).float()
        if next_frame is None:
            bits, kl = self.prior.sample(context, rng), torch.zeros(len(action))
        else:
            bits, kl = self._posterior_bits(history[:, -1], next_frame, chosen, context, rng)
        given = torch.cat([chosen, 2 * bits - 1], dim=1)
        middle, full = self._decode(skips, given)
        pooled = torch.cat([middle.flatten(1), full.mean(dim=(2, 3)), full.amax(dim=(2, 3))], dim=1)
        outcome = self.outcome(pooled).float()
        logits = self.frame(full).float() + self.distribution.copy(history[:, -1])
        return Outputs(logits, outcome[:, :-1], outcome[:, -1], kl)

    def _encode(self, history: Tensor) -> list[Tensor]:
        """Features at every resolution, the highest first."""
        seen = self.distribution.inputs(history.flatten(1, 2))
        seen = seen.contiguous(memory_format=torch.channels_last)
        features = [(self.stem(seen) + self.position).relu()]
        for layer in self.down:
            features.append(layer(features[-1]).relu())
        return features

    def _decode(self, skips: list[Tensor], given: Tensor) -> tuple[Tensor, Tensor]:
        """Features at the lowest and at the highest resolution, with action and bits at every one."""
        bottom = skips[-1]
        middle = (bottom + self.inject(given).view_as(bottom)).relu()
        middle = middle + self.middle(middle).relu()
        x = middle
        for level in reversed(range(len(self.narrow))):
            skip = skips[level]
            scale, shift = self.modulate[level](given).unsqueeze(-1).unsqueeze(-1).chunk(2, dim=1)
            up = functional.interpolate(self.narrow[level](x), size=skip.shape[-2:])
            x = (skip * (1 + scale) + shift + up).relu()
            x = x + self.refine[level](x).relu()
        return middle, x

    def _posterior_bits(
        self,
        frame: Tensor,
        next_frame: Tensor,
        chosen: Tensor,
        context: Tensor,
        rng: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """Bits drawn from the posterior with a straight-through gradient, and its KL from the prior."""
        both = self.distribution.inputs(torch.cat([frame, next_frame], dim=1))
        compared = self.compare(both.contiguous(memory_format=torch.channels_last)).flatten(1)
        logit = self.posterior(torch.cat([compared, chosen], dim=1)).float()
        probability = logit.sigmoid()
        uniform = torch.rand(logit.shape, generator=rng).to(logit.device)
        drawn = (uniform < probability).float()
        bits = drawn + probability - probability.detach()
        return bits, _weighted_kl(logit, self.prior(context, drawn))


def _weighted_kl(logit: Tensor, prior: Tensor) -> Tensor:
    """KL(posterior || prior) of bits in nats: [N, bits], [N, bits] -> [N]

    The gradient trains the prior in full and the posterior with a small weight: at full weight the bits
    stay unused, and the model predicts that nothing random happens.
    """
    kl = _kl(logit.detach(), prior)
    for_posterior = _kl(logit, prior.detach())
    return kl + _POSTERIOR_WEIGHT * (for_posterior - for_posterior.detach())


def _kl(logit: Tensor, prior: Tensor) -> Tensor:
    """The sum over the bits, each given those before it."""
    log_q, log_p, log_not_q, log_not_p = map(functional.logsigmoid, (logit, prior, -logit, -prior))
    q = logit.sigmoid()
    return (q * (log_q - log_p) + (1 - q) * (log_not_q - log_not_p)).sum(dim=1)


def _conv(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1)


def _downward(widths: Sequence[int]) -> list[nn.Module]:
    """Convolutions that halve height and width, each followed by a ReLU."""
    pairs = itertools.pairwise(widths)
    return [layer for a, b in pairs for layer in (_conv(a, b, 2), nn.ReLU())]


def _halved(size: Sequence[int], times: int) -> list[tuple[int, int]]:
    """Height and width at every resolution."""
    sizes = [(size[0], size[1])]
    for _ in range(times):
        sizes.append(((sizes[-1][0] + 1) // 2, (sizes[-1][1] + 1) // 2))
    return sizes
