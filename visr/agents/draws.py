"""Random draws inside the learner that a checkpoint carries in two numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from visr.ops.rng import derived


class Draws(nn.Module):
    """A seed and a count: the k-th generator it hands out depends on these two alone."""

    seed: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seed", torch.randint(2**62, ()))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def next(self) -> torch.Generator:
        """A generator that no earlier call has handed out."""
        seed = derived(int(self.seed), int(self.count))
        self.count += 1
        return torch.Generator().manual_seed(seed)
