"""A model of the reward, r(s, a, s')."""

from __future__ import annotations

import torch
from gymnasium.spaces import Box, Space
from torch import Tensor, nn

from visr.networks.images import convolution, is_image
from visr.networks.torsos import first_layer, linear
from visr.types import EnvSpec

_CHANNELS, _HIDDEN = 32, 64
_SMALL = 20
"""Images with a shorter side are read at full resolution."""


class RewardModel(nn.Module):
    """An encoding of (s, s') plus an embedding of a, then a hidden layer."""

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        space = spec.observation_space
        self.change = (
            _Planes(space) if isinstance(space, Box) and is_image(space) else _Numbers(space)
        )
        self.action = nn.Embedding(spec.num_actions, self.change.size)
        nn.init.zeros_(self.action.weight)
        self.hidden = linear(self.change.size, _HIDDEN)
        self.readout = linear(_HIDDEN, 1)

    def forward(self, before: Tensor, action: Tensor, reached: Tensor) -> Tensor:
        """before [..., *O], action [...], reached [..., *O] -> [...]"""
        batch = action.shape
        before, reached = (x.flatten(0, len(batch) - 1) for x in (before, reached))
        change = self.change(before, reached) + self.action(action.flatten())
        return self.readout(self.hidden(change).relu()).view(batch)


class _Planes(nn.Module):
    """Convolutions on both images and on the coordinates of each pixel, then a maximum over all places.

    Rewards mostly depend on what happens in one place; the maximum generalises from there to all places.
    """

    size = _CHANNELS

    def __init__(self, space: Box) -> None:
        super().__init__()
        self._brightest = max(int(space.high.max()), 1)
        channels, height, width = space.shape
        size, stride, padding = (3, 1, 1) if min(height, width) < _SMALL else (8, 4, 0)
        # One layer on images and coordinates is the sum of a layer on each; coordinates never change.
        self.image = convolution(2 * channels, _CHANNELS, size, stride, padding)
        self.place = convolution(2, _CHANNELS, size, stride, padding)
        self.second = convolution(_CHANNELS, _CHANNELS, 1 if stride == 1 else 3)
        places = (torch.linspace(-1, 1, length) for length in (height, width))
        self.places: Tensor
        self.register_buffer(
            "places", torch.stack(torch.meshgrid(*places, indexing="ij"))[None], persistent=False
        )

    def forward(self, before: Tensor, reached: Tensor) -> Tensor:
        """[N, C, H, W] uint8, the same -> [N, size]"""
        planes = torch.stack([*before.unbind(1), *reached.unbind(1)], dim=-1)
        pixels = planes.permute(0, 3, 1, 2).float().mul_(1 / self._brightest)
        place = self.place(self.places).contiguous(memory_format=torch.channels_last)
        signs = (self.image(pixels) + place).relu_()
        return self.second(signs).relu_().amax(dim=(-2, -1))


class _Numbers(nn.Module):
    """One layer on both states or vectors."""

    size = _HIDDEN

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.before, self.reached = (first_layer(space, self.size) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(self.size))

    def forward(self, before: Tensor, reached: Tensor) -> Tensor:
        """[N, ...], the same -> [N, size]"""
        return (self.before(before) + self.reached(reached) + self.bias).relu()
