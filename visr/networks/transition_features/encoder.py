"""An encoder of states for features that learn, and how they learn from recorded steps."""

from __future__ import annotations

from collections.abc import Callable

import torch
from gymnasium import spaces
from torch import Generator, Tensor, nn

from visr.networks import replay_trunks
from visr.ops.adam import Adam
from visr.types import Unroll

BATCH = 256
"""Steps in an update of learned features, and in one pass of images."""
_LEARNING_RATE = 1e-3
_LAST_RATE = 0.05


class Encoder(nn.Module):
    """e(s): the trunk that psi would use for these observations, and a linear layer."""

    def __init__(self, space: spaces.Space, num_outputs: int) -> None:
        super().__init__()
        self.trunk = replay_trunks.trunk(space, "auto")
        self.readout = nn.Linear(self.trunk.size, num_outputs)

    def forward(self, observation: Tensor) -> Tensor:
        """[N, ...] -> [N, outputs]"""
        return self.readout(self.trunk(observation))

    def of_many(self, observation: Tensor) -> Tensor:
        """The same, some at a time, which needs less memory."""
        return torch.cat([self(part) for part in observation.split(8 * BATCH)])


def draw_steps(recorded: Unroll, rng: Generator, count: int = BATCH) -> tuple[Tensor, Tensor]:
    """Times and unrolls of random steps, without those that only reset: [N] each, N <= count."""
    time = torch.randint(len(recorded.action), (count,), generator=rng)
    unroll = torch.randint(recorded.num_unrolls, (count,), generator=rng)
    kept = ~recorded.is_reset[time, unroll]
    return time[kept], unroll[kept]


def learn(features: nn.Module, loss: Callable[[Generator], Tensor], num_updates: int) -> None:
    """Minimise a loss; the result depends on the weights before and on the recorded steps only."""
    rng = torch.Generator().manual_seed(0)
    features.requires_grad_(True)
    optimiser = Adam(features.parameters(), _LEARNING_RATE)
    with torch.enable_grad():
        for update in range(num_updates):
            optimiser.param_groups[0]["lr"] = _LEARNING_RATE * max(
                1 - update / num_updates, _LAST_RATE
            )
            optimiser.zero_grad()
            loss(rng).backward()
            optimiser.step()
    features.requires_grad_(False)


def orthonormality(rows: Tensor) -> Tensor:
    """Least where the second moments of rows [N, k] are the identity.

    1/2 mean of (b_i . b_j)^2 over pairs i != j, minus the mean of |b_i|^2.
    """
    return 0.5 * off_diagonal_square(rows @ rows.T) - rows.square().sum(dim=1).mean()


def off_diagonal_square(pairs: Tensor) -> Tensor:
    """The mean square of [..., N, N] without its diagonals."""
    count = pairs.shape[-1]
    diagonal = torch.diagonal(pairs, dim1=-2, dim2=-1).square().sum()
    num_pairs = max(pairs.numel() - pairs.numel() // max(count, 1), 1)
    return (pairs.square().sum() - diagonal) / num_pairs
