"""How a model predicts a frame: every cell of a plane by a Bernoulli, every pixel by a 256-way softmax."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor
from torch.nn import functional

_LEVELS = 256
_CLIP = 0.03
"""Kaiser et al. ignore a pixel's loss below this, so that most pixels of a still background cost nothing."""


class FrameDistribution(Protocol):
    """The distribution of one frame [C, H, W] of bytes."""

    num_outputs: int
    """Channels of the logits."""

    def inputs(self, frames: Tensor) -> Tensor:
        """Bytes as numbers from 0 to 1."""
        ...

    def loss(self, logits: Tensor, frame: Tensor) -> Tensor:
        """Negative log-likelihood: [N, outputs, H, W], [N, C, H, W] -> [N]"""
        ...

    def mode(self, logits: Tensor) -> Tensor:
        """The most likely frame: [N, outputs, H, W] -> [N, C, H, W] uint8"""
        ...

    def copy(self, frame: Tensor) -> Tensor | float:
        """Logits that favour `frame`, to which the network adds its own."""
        ...


class BinaryPlanes:
    """Cells that are 0 or 1, as in MinAtar."""

    def __init__(self, num_channels: int) -> None:
        self.num_outputs = num_channels

    def inputs(self, frames: Tensor) -> Tensor:
        return frames.float()

    def loss(self, logits: Tensor, frame: Tensor) -> Tensor:
        cells = functional.binary_cross_entropy_with_logits(logits, frame.float(), reduction="none")
        return cells.sum(dim=(1, 2, 3))

    def mode(self, logits: Tensor) -> Tensor:
        return (logits > 0).to(torch.uint8)

    def copy(self, frame: Tensor) -> Tensor:
        """Most cells stay as they are."""
        return 8.0 * frame.float() - 4.0


class Pixels:
    """Bytes of 256 levels, as in Atari."""

    def __init__(self, num_channels: int) -> None:
        self._num_channels = num_channels
        self.num_outputs = _LEVELS * num_channels

    def inputs(self, frames: Tensor) -> Tensor:
        return frames.float() / (_LEVELS - 1)

    def loss(self, logits: Tensor, frame: Tensor) -> Tensor:
        pixels = functional.cross_entropy(self._levels(logits), frame.long(), reduction="none")
        return pixels.clamp(min=_CLIP).sum(dim=(1, 2, 3))

    def mode(self, logits: Tensor) -> Tensor:
        return self._levels(logits).argmax(dim=1).to(torch.uint8)

    def copy(self, frame: Tensor) -> float:
        return 0.0

    def _levels(self, logits: Tensor) -> Tensor:
        """[N, 256 C, H, W] -> [N, 256, C, H, W]"""
        return logits.unflatten(1, (_LEVELS, self._num_channels))


def distribution_of(space: Box, num_channels: int) -> FrameDistribution:
    """The distribution for frames of this space with so many channels."""
    is_binary = int(np.max(space.high)) <= 1
    return BinaryPlanes(num_channels) if is_binary else Pixels(num_channels)
